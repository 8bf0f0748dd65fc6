// A small consumer of the Arrow C interfaces, written from their specification: what tests read tables with.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tables/arrow_abi.h"

namespace stepscope::testing {

// Released when it goes, like what a consumer holds.
template <class Struct>
class Held {
 public:
  Held() : what_() {}
  explicit Held(Struct* moved) : what_(*moved) { moved->release = nullptr; }
  Held(Held&& other) noexcept : what_(other.what_) { other.what_.release = nullptr; }
  Held& operator=(Held&& other) noexcept {
    std::swap(what_, other.what_);
    return *this;
  }
  ~Held() {
    if (what_.release) what_.release(&what_);
  }
  Struct* get() { return &what_; }
  Struct* operator->() { return &what_; }
  const Struct& operator*() const { return what_; }

 private:
  Struct what_;
};

using HeldSchema = Held<ArrowSchema>;
using HeldArray = Held<ArrowArray>;
using HeldStream = Held<ArrowArrayStream>;

inline std::map<std::string, std::string> metadata_of(const ArrowSchema& schema) {
  std::map<std::string, std::string> out;
  const char* at = schema.metadata;
  if (!at) return out;
  const auto number = [&] {
    int32_t value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return static_cast<size_t>(value);
  };
  const auto text = [&] {
    const size_t size = number();
    std::string value(at, size);
    at += size;
    return value;
  };
  for (size_t left = number(); left > 0; --left) {
    std::string key = text();
    out[key] = text();
  }
  return out;
}

inline bool is_null(const ArrowArray& array, int64_t row) {
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  return bits && !(bits[row / 8] >> (row % 8) & 1);
}

template <class T>
T value(const ArrowArray& array, int64_t row) {
  return static_cast<const T*>(array.buffers[1])[row];
}

inline std::string_view text(const ArrowArray& array, int64_t row) {
  const auto* offsets = static_cast<const int32_t*>(array.buffers[1]);
  const auto* bytes = static_cast<const char*>(array.buffers[2]);
  return {bytes + offsets[row], static_cast<size_t>(offsets[row + 1] - offsets[row])};
}

inline std::vector<int32_t> list(const ArrowArray& array, int64_t row) {
  const auto* offsets = static_cast<const int32_t*>(array.buffers[1]);
  const auto* items = static_cast<const int32_t*>(array.children[0]->buffers[1]);
  return {items + offsets[row], items + offsets[row + 1]};
}

// Any number as a double; nullopt: null.
inline std::optional<double> number(const ArrowSchema& schema, const ArrowArray& array, int64_t row) {
  if (is_null(array, row)) return std::nullopt;
  switch (schema.format[0]) {
    case 'b': return static_cast<const uint8_t*>(array.buffers[1])[row / 8] >> (row % 8) & 1;
    case 'i': return value<int32_t>(array, row);
    case 'l': return static_cast<double>(value<int64_t>(array, row));
    case 'L': return static_cast<double>(value<uint64_t>(array, row));
    default: return value<double>(array, row);
  }
}

inline int64_t column_of(const ArrowSchema& schema, std::string_view name) {
  for (int64_t c = 0; c < schema.n_children; ++c)
    if (schema.children[c]->name == name) return c;
  ADD_FAILURE() << "no column " << name;
  return 0;
}

// A stream that is read to its end, batch by batch.
struct ReadStream {
  HeldSchema schema;
  std::vector<HeldArray> batches;
  int code = 0;
  std::string error;

  int64_t rows() const {
    int64_t sum = 0;
    for (const HeldArray& batch : batches) sum += (*batch).length;
    return sum;
  }
  // All numbers of a column.
  std::vector<std::optional<double>> numbers(std::string_view name) const {
    std::vector<std::optional<double>> out;
    const int64_t c = column_of(*schema, name);
    for (const HeldArray& batch : batches)
      for (int64_t row = 0; row < (*batch).length; ++row)
        out.push_back(number(*(*schema).children[c], *(*batch).children[c], row));
    return out;
  }
  std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> out;
    const int64_t c = column_of(*schema, name);
    for (const HeldArray& batch : batches)
      for (int64_t row = 0; row < (*batch).length; ++row) {
        const ArrowArray& array = *(*batch).children[c];
        out.emplace_back(array.dictionary ? text(*array.dictionary, value<int32_t>(array, row)) : text(array, row));
      }
    return out;
  }
};

inline ReadStream read_all(ArrowArrayStream* stream) {
  ReadStream out;
  out.code = stream->get_schema(stream, out.schema.get());
  while (out.code == 0) {
    HeldArray batch;
    out.code = stream->get_next(stream, batch.get());
    if (out.code != 0 || !(*batch).release) break;
    out.batches.push_back(std::move(batch));
  }
  if (const char* error = out.code ? stream->get_last_error(stream) : nullptr) out.error = error;
  return out;
}

}  // namespace stepscope::testing
