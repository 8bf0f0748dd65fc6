// Two archives of one shape: WireOut writes what WireIn reads, so that one function says how a struct lies in a frame.
// Integers as LEB128 (signed ones zigzag), texts with their length. WireIn trusts nothing: past the first thing that
// does not fit it reads zeros, ok() is false, and what it makes room for is bounded.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "store/varint.h"

namespace stepscope {

class WireOut {
 public:
  static constexpr bool kWrites = true;
  const std::string& bytes() const { return out_; }

  template <std::integral T>
  void num(const T& value) {
    if constexpr (std::is_signed_v<T>)
      store::put_varint(out_, store::zigzag(value));
    else
      store::put_varint(out_, value);
  }
  void flag(const bool& value) { num(static_cast<uint8_t>(value)); }
  template <class E>
    requires std::is_enum_v<E>
  void word(const E& value, unsigned) {
    num(static_cast<uint64_t>(value));
  }
  void real(const double& value) { raw(&value, sizeof value); }
  // Exact; four bytes where a float holds it.
  void number(const double& value) {
    const auto small = static_cast<float>(value);
    const bool fits = std::bit_cast<uint64_t>(static_cast<double>(small)) == std::bit_cast<uint64_t>(value);
    num(static_cast<uint8_t>(fits));
    fits ? raw(&small, sizeof small) : raw(&value, sizeof value);
  }
  void text(const std::string& value, size_t most) {
    const std::string_view part = std::string_view(value).substr(0, most);
    num(part.size());
    out_.append(part);
  }
  void raw(const void* data, size_t size) { out_.append(static_cast<const char*>(data), size); }
  template <class T, class Each>
  void list(const std::vector<T>& items, size_t most, Each each) {
    const size_t count = std::min(items.size(), most);
    num(count);
    for (size_t i = 0; i < count; ++i) each(const_cast<T&>(items[i]));
  }
  template <class T, class Each>
  void maybe(const std::optional<T>& value, Each each) {
    num(static_cast<uint8_t>(value.has_value()));
    if (value) each(const_cast<T&>(*value));
  }

 private:
  std::string out_;
};

class WireIn {
 public:
  static constexpr bool kWrites = false;
  WireIn(std::string_view bytes, size_t most_memory) : in_(bytes), memory_(most_memory) {}
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }
  void fail() { ok_ = false, in_ = {}; }

  template <std::integral T>
  void num(T& value) {
    const auto read = ok_ ? store::take_varint(in_) : std::nullopt;
    if (!read) return fail(), void(value = 0);
    if constexpr (std::is_signed_v<T>) {
      const int64_t wide = store::unzigzag(*read);
      value = static_cast<T>(wide);
      if (static_cast<int64_t>(value) != wide) fail(), value = 0;
    } else {
      value = static_cast<T>(*read);
      if (static_cast<uint64_t>(value) != *read) fail(), value = 0;
    }
  }
  void flag(bool& value) {
    uint8_t bit = 0;
    num(bit);
    value = bit != 0;
  }
  // An enumerator below `end`.
  template <class E>
    requires std::is_enum_v<E>
  void word(E& value, unsigned end) {
    uint64_t read = 0;
    num(read);
    if (read >= end) fail(), read = 0;
    value = static_cast<E>(read);
  }
  void real(double& value) { raw(&value, sizeof value); }
  void number(double& value) {
    uint8_t fits = 0;
    num(fits);
    if (!fits) return real(value);
    float small = 0;
    raw(&small, sizeof small);
    value = small;
  }
  void text(std::string& value, size_t most) {
    const size_t size = count(most, 1);
    if (size > in_.size()) return fail();
    value.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
  void raw(void* data, size_t size) {
    if (size > in_.size()) return fail(), void(std::memset(data, 0, size));
    std::memcpy(data, in_.data(), size);
    in_.remove_prefix(size);
  }
  template <class T, class Each>
  void list(std::vector<T>& items, size_t most, Each each) {
    items.clear();
    items.resize(count(most, sizeof(T)));
    for (T& item : items)
      if (ok_) each(item);
  }
  template <class T, class Each>
  void maybe(std::optional<T>& value, Each each) {
    uint8_t there = 0;
    num(there);
    if (!there || !ok_) return value.reset();
    each(value.emplace());
  }
  // How many things of `size` bytes of memory follow; each takes a byte of the frame, at least.
  size_t count(size_t most, size_t size) {
    uint64_t n = 0;
    num(n);
    if (n > most || n > in_.size() || !charge(n * size)) return fail(), 0;
    return n;
  }
  bool charge(size_t bytes) {
    if (bytes > memory_) return fail(), false;
    memory_ -= bytes;
    return true;
  }

 private:
  std::string_view in_;
  size_t memory_;
  bool ok_ = true;
};

// Keys and values of a map, in its order.
template <class A, class K, class V, class Each>
void table(A& wire, std::map<K, V>& map, size_t most, Each each) {
  constexpr size_t kNode = 64;
  if constexpr (A::kWrites) {
    size_t left = std::min(map.size(), most);
    wire.num(left);
    for (auto& [key, value] : map) {
      if (left-- == 0) break;
      each(const_cast<K&>(key), value);
    }
  } else {
    map.clear();
    const size_t count = wire.count(most, kNode + sizeof(K) + sizeof(V));
    for (size_t i = 0; i < count && wire.ok(); ++i) {
      K key{};
      V value{};
      each(key, value);
      if (wire.ok()) map.insert_or_assign(std::move(key), std::move(value));
    }
  }
}

}  // namespace stepscope
