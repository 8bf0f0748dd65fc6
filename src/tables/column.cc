#include "tables/column.h"

#include <algorithm>

#include "blackbox/text.h"

namespace stepscope::tables {
namespace {

constexpr size_t byte_count(size_t bits) { return (bits + 7) / 8; }
bool bit(const std::vector<uint8_t>& bits, size_t index) { return bits[index / 8] >> (index % 8) & 1; }

}  // namespace

Column::Column(ColumnType type) : type_(type) {
  if (type == ColumnType::kText || type == ColumnType::kRanks) offsets_.push_back(0);
}

void Column::began(size_t count) {
  size_ += count;
  if (!valid_.empty()) valid_.resize(byte_count(size_), 0xff);
}

void Column::put(int64_t value) {
  switch (type_) {
    case ColumnType::kBool:
      bits_.resize(byte_count(size_ + 1));
      if (value != 0) bits_[size_ / 8] |= static_cast<uint8_t>(1 << (size_ % 8));
      break;
    case ColumnType::kInt32:
    case ColumnType::kWord:
      small_.resize(size_);
      small_.push_back(static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)));
      break;
    case ColumnType::kReal: return put(static_cast<double>(value));
    default: grow_integers(1)[0] = value; return;
  }
  began(1);
}

void Column::put(double value) { grow_reals(1)[0] = value; }

void Column::put(std::string_view text) {
  text_ += blackbox::printable(text);
  offsets_.push_back(static_cast<int32_t>(text_.size()));
  began(1);
}

void Column::put(std::span<const int> ranks) {
  small_.insert(small_.end(), ranks.begin(), ranks.end());
  offsets_.push_back(static_cast<int32_t>(small_.size()));
  began(1);
}

void Column::put_null() {
  if (type_ == ColumnType::kText || type_ == ColumnType::kRanks) {
    offsets_.push_back(offsets_.back());
    began(1);
  } else {
    grow_zeros(1);
  }
  set_null(size_ - 1);
}

std::span<double> Column::grow_reals(size_t count) {
  real_.resize(size_ + count);
  began(count);
  return std::span(real_).subspan(size_ - count);
}

std::span<int64_t> Column::grow_integers(size_t count) {
  large_.resize(size_ + count);
  began(count);
  return std::span(large_).subspan(size_ - count);
}

// Numbers are laid down when the first that is not zero comes; from then on zeros are, too.
void Column::grow_zeros(size_t count) {
  if (!real_.empty()) real_.resize(size_ + count);
  if (!large_.empty()) large_.resize(size_ + count);
  if (!small_.empty()) small_.resize(size_ + count);
  if (!bits_.empty()) bits_.resize(byte_count(size_ + count));
  began(count);
}

void Column::set_null(size_t index) {
  if (valid_.empty()) valid_.resize(byte_count(size_), 0xff);
  if (!bit(valid_, index)) return;
  valid_[index / 8] &= static_cast<uint8_t>(~(1 << (index % 8)));
  ++nulls_;
}

bool Column::is_null(size_t index) const { return !valid_.empty() && !bit(valid_, index); }

int64_t Column::integer(size_t index) const {
  switch (type_) {
    case ColumnType::kBool: return bits_.empty() ? 0 : bit(bits_, index);
    case ColumnType::kInt32:
    case ColumnType::kWord: return small_.empty() ? 0 : small_[index];
    default: return large_.empty() ? 0 : large_[index];
  }
}

double Column::real(size_t index) const { return real_.empty() ? 0 : real_[index]; }

std::string_view Column::text(size_t index) const {
  const auto begin = static_cast<size_t>(offsets_[index]), end = static_cast<size_t>(offsets_[index + 1]);
  return std::string_view(text_).substr(begin, end - begin);
}

std::span<const int32_t> Column::ranks(size_t index) const {
  const auto begin = static_cast<size_t>(offsets_[index]), end = static_cast<size_t>(offsets_[index + 1]);
  return std::span(small_).subspan(begin, end - begin);
}

const void* Column::values() const {
  switch (type_) {
    case ColumnType::kBool: return bits_.empty() ? nullptr : bits_.data();
    case ColumnType::kInt32:
    case ColumnType::kWord: return small_.empty() ? nullptr : small_.data();
    case ColumnType::kReal: return real_.empty() ? nullptr : real_.data();
    case ColumnType::kText: return text_.data();
    case ColumnType::kRanks: return nullptr;
    default: return large_.empty() ? nullptr : large_.data();
  }
}

std::shared_ptr<const void> zeros(size_t rows) {
  const auto block = std::make_shared<const std::vector<int64_t>>(rows + 1);
  return {block, block->data()};
}

std::shared_ptr<const Column> word_list(std::span<const std::string> words) {
  auto list = std::make_shared<Column>(ColumnType::kText);
  for (const std::string& word : words) list->put(std::string_view(word));
  return list;
}

}  // namespace stepscope::tables
