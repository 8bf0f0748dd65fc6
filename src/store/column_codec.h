// A column of integers as few bytes: prediction, zigzag, byte planes, zstd per plane (docs/formats/run_file.md).
//
// A column is `series` runs of `length` values each, run after run (one run per rank, values in step order). Coding is
// lossless for every int64. The encoder tries four predictors and keeps the one with the smallest residuals.
//
// Ownership: a codec holds zstd contexts and scratch memory; one per thread. Cost: about 10 ns per value each way.
// Failure: encoding cannot fail (a plane that zstd refuses is stored raw). Decoding trusts no byte: memory is bounded
// by the caller's count, and what does not fit is an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace stepscope::store {

inline constexpr size_t kMaxColumnValues = 1u << 18;

class ColumnCodec {
 public:
  ColumnCodec();
  ~ColumnCodec();
  ColumnCodec(ColumnCodec&&) noexcept;
  ColumnCodec& operator=(ColumnCodec&&) noexcept;

  // kFast leaves zstd and the better guesses out: a tenth of the time, up to twice the bytes; for what is written again
  // soon.
  enum class Effort : uint8_t { kFast, kFull };
  // values.size() must be a multiple of `length`, and at most kMaxColumnValues.
  std::string encode(std::span<const int64_t> values, size_t length, Effort effort = Effort::kFull);
  // Fills `out` with exactly `count` values.
  Status decode(std::string_view bytes, size_t count, size_t length, std::vector<int64_t>& out);

 private:
  void put_plane(std::string& out, std::span<const uint8_t> plane, Effort effort);

  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> compress_;
  std::unique_ptr<ZSTD_DCtx_s, Free> decompress_;
  std::vector<uint64_t> residuals_;
  std::vector<uint8_t> plane_, packed_;
};

}  // namespace stepscope::store
