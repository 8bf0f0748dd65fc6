#include "flight/pickle.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/text_format.h"

namespace stepscope::flight {
namespace {

using Node = uint32_t;

// Containers hold places in the machine's store, so that a value that is referred to a thousand times is there once.
struct List {
  std::vector<Node> items;
};
struct Dict {
  std::vector<std::pair<Node, Node>> items;
};
using Value = std::variant<std::monostate, bool, int64_t, double, std::string_view, List, Dict>;

constexpr Node kMark = UINT32_MAX;

const char* refused_name(unsigned char op) {
  switch (op) {
    case 'c': return "GLOBAL";
    case 0x93: return "STACK_GLOBAL";
    case 'R': return "REDUCE";
    case 'b': return "BUILD";
    case 'i': return "INST";
    case 'o': return "OBJ";
    case 0x81: return "NEWOBJ";
    case 0x92: return "NEWOBJ_EX";
    case 'P': return "PERSID";
    case 'Q': return "BINPERSID";
    case 0x82: return "EXT1";
    case 0x83: return "EXT2";
    case 0x84: return "EXT4";
    default: return nullptr;
  }
}

class Machine {
 public:
  Machine(std::string_view bytes, const PlainLimits& limits) : bytes_(bytes), limits_(limits) {}

  Result<nlohmann::json> run() {
    for (;;) {
      op_at_ = at_;
      if (at_ == bytes_.size()) return bad("ends before its STOP");
      const auto op = static_cast<unsigned char>(bytes_[at_++]);
      if (op == '.') break;
      if (Status status = step(op); !status) return std::unexpected(status.error());
      if (store_.size() > limits_.values || stack_.size() > limits_.values)
        return bad(formatted("more than {} values", limits_.values));
    }
    if (stack_.size() != 1 || stack_.back() == kMark) return bad("does not end with one value");
    size_t left = limits_.values;
    nlohmann::json out;
    if (Status status = copy(stack_.back(), 0, left, out); !status) return std::unexpected(status.error());
    return out;
  }

 private:
  std::unexpected<Error> bad(const std::string& what) const {
    return fail(formatted("the pickle {} (byte {})", what, op_at_));
  }

  Status step(unsigned char op) {
    if (const char* name = refused_name(op)) {
      return fail(
          formatted("the pickle loads or calls a class ({} at byte {}); only plain data is read", name, op_at_));
    }
    switch (op) {
      case 0x80: return skip(1);  // PROTO
      case 0x95: return skip(8);  // FRAME
      case 'N': return push(std::monostate());
      case 0x88: return push(true);    // NEWTRUE
      case 0x89: return push(false);   // NEWFALSE
      case 'K': return push_int(1);    // BININT1
      case 'M': return push_int(2);    // BININT2
      case 'J': return push_int(4);    // BININT, signed
      case 0x8a: return push_long();   // LONG1
      case 'G': return push_float();   // BINFLOAT
      case 'X': return push_text(4);   // BINUNICODE
      case 0x8c: return push_text(1);  // SHORT_BINUNICODE
      case 0x8d: return push_text(8);  // BINUNICODE8
      case 'U': return push_text(1);   // SHORT_BINSTRING
      case 'T': return push_text(4);   // BINSTRING
      case '(': return stack_.push_back(kMark), Status();
      case ']':
      case ')': return push(List());  // EMPTY_LIST, EMPTY_TUPLE
      case '}': return push(Dict());  // EMPTY_DICT
      case 0x85: return tuple(1);
      case 0x86: return tuple(2);
      case 0x87: return tuple(3);
      case 't':
      case 'l': return tuple_to_mark();  // TUPLE, LIST
      case 'd': return dict_to_mark();   // DICT
      case 'a': return append(stack_.size() < 1 ? 0 : stack_.size() - 1, stack_.size());
      case 'e': return appends();
      case 's': return set_items(stack_.size() < 2 ? 0 : stack_.size() - 2);
      case 'u': return set_items_to_mark();
      case 'q': return put(1);                 // BINPUT
      case 'r': return put(4);                 // LONG_BINPUT
      case 0x94: return put_at(memo_.size());  // MEMOIZE
      case 'h': return get(1);                 // BINGET
      case 'j': return get(4);                 // LONG_BINGET
      case '0': return pop();
      case '2': return dup();
      default: return bad(formatted("holds instruction 0x{:02x}, which plain data of torch does not", op));
    }
  }

  bool has(size_t count) const { return bytes_.size() - at_ >= count; }
  std::unexpected<Error> cut_off() const { return bad("is cut off"); }

  Status skip(size_t count) {
    if (!has(count)) return cut_off();
    at_ += count;
    return {};
  }

  std::optional<uint64_t> number(size_t width) {
    if (!has(width)) return std::nullopt;
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += width;
    return value;
  }

  Status push(Value value) {
    store_.push_back(std::move(value));
    stack_.push_back(static_cast<Node>(store_.size() - 1));
    return {};
  }

  Status push_int(size_t width) {
    const auto value = number(width);
    if (!value) return cut_off();
    return push(width == 4 ? int64_t{static_cast<int32_t>(*value)} : static_cast<int64_t>(*value));
  }

  // Two's complement, little-endian. More than 64 bits is nothing that a dump holds.
  Status push_long() {
    const auto width = number(1);
    if (!width) return cut_off();
    if (*width > 8) return bad("holds a number of more than 64 bits");
    const auto value = number(*width);
    if (!value) return cut_off();
    const size_t unused = 64 - 8 * *width;
    return push(unused == 64 ? int64_t{0} : static_cast<int64_t>(*value << unused) >> unused);
  }

  Status push_float() {
    if (!has(8)) return cut_off();
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(bytes_[at_++]);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return push(value);
  }

  Status push_text(size_t width) {
    const auto length = number(width);
    if (!length || !has(*length)) return cut_off();
    at_ += *length;
    return push(bytes_.substr(at_ - *length, *length));
  }

  // Place right above the topmost mark.
  std::optional<size_t> above_mark() const {
    for (size_t i = stack_.size(); i > 0; --i) {
      if (stack_[i - 1] == kMark) return i;
    }
    return std::nullopt;
  }

  std::unexpected<Error> no_mark() const { return bad("misses a MARK"); }
  std::unexpected<Error> underflow() const { return bad("takes from an empty stack"); }

  bool plain(size_t first) const {
    for (size_t i = first; i < stack_.size(); ++i) {
      if (stack_[i] == kMark) return false;
    }
    return true;
  }

  Status tuple(size_t count) {
    if (stack_.size() < count || !plain(stack_.size() - count)) return underflow();
    List list{{stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end()}};
    stack_.resize(stack_.size() - count);
    return push(std::move(list));
  }

  Status tuple_to_mark() {
    const auto first = above_mark();
    if (!first) return no_mark();
    List list{{stack_.begin() + static_cast<std::ptrdiff_t>(*first), stack_.end()}};
    stack_.resize(*first - 1);
    return push(std::move(list));
  }

  Status dict_to_mark() {
    const auto first = above_mark();
    if (!first) return no_mark();
    stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(*first) - 1, static_cast<Node>(store_.size()));
    store_.push_back(Dict());
    return set_items_to_mark();
  }

  // stack_[first - 1] is the list; from first on, what is added.
  Status append(size_t first, size_t end) {
    if (first == 0 || !plain(first - 1)) return underflow();
    auto* list = std::get_if<List>(&store_[stack_[first - 1]]);
    if (!list) return bad("appends to what is no list");
    list->items.insert(list->items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first),
                       stack_.begin() + static_cast<std::ptrdiff_t>(end));
    stack_.resize(first);
    return {};
  }

  // Takes the topmost mark out of the stack, above the list or dict that it follows: where that one's new items begin.
  std::optional<size_t> drop_mark() {
    const auto first = above_mark();
    if (!first || *first < 2) return std::nullopt;
    stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(*first) - 1);
    return *first - 1;
  }

  Status appends() {
    const auto first = drop_mark();
    return first ? append(*first, stack_.size()) : Status(no_mark());
  }

  Status set_items(size_t first) {
    if (first == 0 || !plain(first - 1)) return underflow();
    auto* dict = std::get_if<Dict>(&store_[stack_[first - 1]]);
    if (!dict || (stack_.size() - first) % 2 != 0) return bad("sets items of what is no dict");
    for (size_t i = first; i < stack_.size(); i += 2) dict->items.emplace_back(stack_[i], stack_[i + 1]);
    stack_.resize(first);
    return {};
  }

  Status set_items_to_mark() {
    const auto first = drop_mark();
    return first ? set_items(*first) : Status(no_mark());
  }

  Status put(size_t width) {
    const auto place = number(width);
    return place ? put_at(*place) : Status(cut_off());
  }

  Status put_at(uint64_t place) {
    if (stack_.empty() || stack_.back() == kMark) return underflow();
    memo_[place] = stack_.back();
    return {};
  }

  Status get(size_t width) {
    const auto place = number(width);
    if (!place) return cut_off();
    const auto found = memo_.find(*place);
    if (found == memo_.end()) return bad("refers to a value that is not there");
    stack_.push_back(found->second);
    return {};
  }

  Status pop() {
    if (stack_.empty()) return underflow();
    stack_.pop_back();
    return {};
  }

  Status dup() {
    if (stack_.empty() || stack_.back() == kMark) return underflow();
    stack_.push_back(stack_.back());
    return {};
  }

  // A value that holds itself ends at the depth, one that holds others again and again at the number of values.
  Status copy(Node node, size_t depth, size_t& left, nlohmann::json& out) {
    if (depth > limits_.depth) return fail(formatted("the pickle nests deeper than {}", limits_.depth));
    if (left-- == 0) return fail(formatted("the pickle holds more than {} values", limits_.values));
    const Value& value = store_[node];
    if (const auto* flag = std::get_if<bool>(&value)) out = *flag;
    if (const auto* number = std::get_if<int64_t>(&value)) out = *number;
    if (const auto* number = std::get_if<double>(&value)) out = *number;
    if (const auto* text = std::get_if<std::string_view>(&value)) out = std::string(*text);
    if (const auto* list = std::get_if<List>(&value)) {
      out = nlohmann::json::array();
      for (const Node item : list->items) {
        out.emplace_back();
        if (Status status = copy(item, depth + 1, left, out.back()); !status) return status;
      }
    }
    if (const auto* dict = std::get_if<Dict>(&value)) {
      out = nlohmann::json::object();
      for (const auto& [key, item] : dict->items) {
        const auto* text = std::get_if<std::string_view>(&store_[key]);
        if (!text) return fail("the pickle holds a dict whose key is no text");
        if (Status status = copy(item, depth + 1, left, out[std::string(*text)]); !status) return status;
      }
    }
    return {};
  }

  std::string_view bytes_;
  const PlainLimits& limits_;
  size_t at_ = 0, op_at_ = 0;
  std::vector<Value> store_;
  std::vector<Node> stack_;
  std::unordered_map<uint64_t, Node> memo_;
};

}  // namespace

bool looks_like_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 1 && bytes[1] <= 5;
}

Result<nlohmann::json> parse_pickle(std::string_view bytes, const PlainLimits& limits) {
  return Machine(bytes, limits).run();
}

}  // namespace stepscope::flight
