#include "store/column_codec.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "store/varint.h"

namespace stepscope::store {
namespace {

constexpr uint8_t kFormat = 0x10;       // high nibble of the first byte; the low one is the predictor
constexpr int kColumnLevel = 1;         // residuals are noise: deeper searches find nothing
constexpr size_t kSampleValues = 1024;  // predictors are compared on so many values

constexpr size_t kMiddleOfAll = 255, kMiddleOfRun = 15;  // values that a base is the median of

enum Predictor : uint8_t { kBase, kSeries, kPrevious, kAcross, kPredictors };
enum PlaneMode : uint8_t { kZero, kRaw, kZstd };

// Differences wrap, so that every int64 has a residual that brings it back.
int64_t difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

int64_t middle(std::span<const int64_t> values, size_t most) {
  std::array<int64_t, kMiddleOfAll> sample;
  const size_t n = std::min(values.size(), most);
  for (size_t i = 0; i < n; ++i) sample[i] = values[i * values.size() / n];
  std::nth_element(sample.begin(), sample.begin() + static_cast<ptrdiff_t>(n / 2),
                   sample.begin() + static_cast<ptrdiff_t>(n));
  return sample[n / 2];
}

// What the value at `i` is expected to be, from values before it and the bases.
int64_t expected(Predictor how, std::span<const int64_t> values, std::span<const int64_t> bases, size_t i,
                 size_t length) {
  switch (how) {
    case kSeries: return bases[i / length];
    case kPrevious: return i % length ? values[i - 1] : i ? values[i - length] : bases[0];
    case kAcross: return i >= length ? values[i - length] : bases[0];
    default: return bases[0];
  }
}

// Bits that a byte plane takes when each byte costs what its frequency says.
double entropy_bits(const std::array<uint32_t, 256>& counts, double total) {
  double bits = 0;
  for (uint32_t n : counts)
    if (n) bits -= n * std::log2(n / total);
  return bits;
}

// Bits that the residuals of a predictor would take, by a sample.
double estimate(Predictor how, std::span<const int64_t> values, std::span<const int64_t> bases, size_t length) {
  const size_t stride = values.size() / kSampleValues + 1;
  std::array<std::array<uint32_t, 256>, 8> counts;
  unsigned width = 0;
  uint32_t sampled = 0;
  for (size_t i = 0; i < values.size(); i += stride, ++sampled) {
    uint64_t residual = zigzag(difference(values[i], expected(how, values, bases, i, length)));
    // A plane is opened by the first residual that reaches it; until then it held zeros.
    while (width < 8 && residual >> (8 * width)) {
      counts[width].fill(0);
      counts[width++][0] = sampled;
    }
    for (unsigned byte = 0; byte < width; ++byte, residual >>= 8) ++counts[byte][residual & 255];
  }
  double bits = 0;
  for (unsigned byte = 0; byte < width; ++byte) bits += entropy_bits(counts[byte], sampled);
  bits *= static_cast<double>(stride);
  if (how == kSeries)
    for (size_t s = 1; s < bases.size(); ++s) bits += 8 + std::bit_width(zigzag(difference(bases[s], bases[s - 1])));
  return bits;
}

// The widest residual of a sample: what matters where planes are stored as they are.
double rough_estimate(Predictor how, std::span<const int64_t> values, std::span<const int64_t> bases, size_t length) {
  uint64_t all = 0;
  const size_t stride = values.size() / 256 + 1;
  for (size_t i = 0; i < values.size(); i += stride)
    all |= zigzag(difference(values[i], expected(how, values, bases, i, length)));
  const double bytes = (std::bit_width(all) + 7) / 8;
  return bytes * static_cast<double>(values.size()) + (how == kSeries ? 3.0 * static_cast<double>(bases.size()) : 0);
}

Error damaged(const char* what) { return {std::string("damaged column: ") + what}; }

}  // namespace

void ColumnCodec::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void ColumnCodec::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

ColumnCodec::ColumnCodec() : compress_(ZSTD_createCCtx()), decompress_(ZSTD_createDCtx()) {
  if (!compress_) return;
  ZSTD_CCtx_setParameter(compress_.get(), ZSTD_c_compressionLevel, kColumnLevel);
  ZSTD_CCtx_setParameter(compress_.get(), ZSTD_c_contentSizeFlag, 0);
}
ColumnCodec::~ColumnCodec() = default;
ColumnCodec::ColumnCodec(ColumnCodec&&) noexcept = default;
ColumnCodec& ColumnCodec::operator=(ColumnCodec&&) noexcept = default;

void ColumnCodec::put_plane(std::string& out, std::span<const uint8_t> plane, Effort effort) {
  if (std::all_of(plane.begin(), plane.end(), [](uint8_t byte) { return byte == 0; })) {
    out += static_cast<char>(kZero);
    return;
  }
  packed_.resize(ZSTD_compressBound(plane.size()));
  const size_t size = compress_ && effort == Effort::kFull
                          ? ZSTD_compress2(compress_.get(), packed_.data(), packed_.size(), plane.data(), plane.size())
                          : plane.size();
  if (ZSTD_isError(size) || size + 2 >= plane.size()) {
    out += static_cast<char>(kRaw);
    out.append(reinterpret_cast<const char*>(plane.data()), plane.size());
    return;
  }
  out += static_cast<char>(kZstd);
  put_varint(out, size);
  out.append(reinterpret_cast<const char*>(packed_.data()), size);
}

std::string ColumnCodec::encode(std::span<const int64_t> values, size_t length, Effort effort) {
  std::string out;
  if (values.empty()) return out;
  std::vector<int64_t> bases;
  for (size_t i = 0; i < values.size(); i += length) {
    bases.push_back(middle(values.subspan(i, length), kMiddleOfRun));
    if (effort == Effort::kFast) break;
  }
  const int64_t common = middle(values, kMiddleOfAll), first_base = bases[0];
  Predictor best = kBase;
  double least = HUGE_VAL;
  for (uint8_t p = kBase; p < kPredictors; ++p) {
    const auto how = static_cast<Predictor>(p);
    if (how == kSeries && effort == Effort::kFast) continue;
    if (how != kSeries)
      bases[0] = common;
    else
      bases[0] = first_base;
    const double bits =
        effort == Effort::kFull ? estimate(how, values, bases, length) : rough_estimate(how, values, bases, length);
    if (bits < least) least = bits, best = how;
  }
  bases[0] = best == kSeries ? first_base : common;

  residuals_.resize(values.size());
  uint64_t all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    residuals_[i] = zigzag(difference(values[i], expected(best, values, bases, i, length)));
    all |= residuals_[i];
  }
  const auto width = static_cast<size_t>((std::bit_width(all) + 7) / 8);
  out += static_cast<char>(kFormat | best);
  out += static_cast<char>(width);
  for (size_t s = 0; s < (best == kSeries ? bases.size() : 1); ++s)
    put_varint(out, zigzag(difference(bases[s], s ? bases[s - 1] : 0)));
  plane_.resize(values.size());
  for (size_t byte = 0; byte < width; ++byte) {
    for (size_t i = 0; i < values.size(); ++i) plane_[i] = static_cast<uint8_t>(residuals_[i] >> (8 * byte));
    put_plane(out, plane_, effort);
  }
  return out;
}

Status ColumnCodec::decode(std::string_view bytes, size_t count, size_t length, std::vector<int64_t>& out) {
  if (length == 0 || count % length != 0 || count > kMaxColumnValues) return fail("damaged column: impossible size");
  out.assign(count, 0);
  if (count == 0) return bytes.empty() ? Status() : std::unexpected(damaged("bytes left over"));
  if (bytes.size() < 2 || (bytes[0] & 0xf0) != kFormat) return std::unexpected(damaged("unknown coding"));
  const auto how = static_cast<Predictor>(bytes[0] & 0x0f);
  const auto width = static_cast<uint8_t>(bytes[1]);
  if (how >= kPredictors || width > 8) return std::unexpected(damaged("unknown predictor or width"));
  bytes.remove_prefix(2);
  std::vector<int64_t> bases(how == kSeries ? count / length : 1);
  int64_t before = 0;
  for (int64_t& base : bases) {
    const auto value = take_varint(bytes);
    if (!value) return std::unexpected(damaged("bases cut short"));
    before = base = sum(before, unzigzag(*value));
  }
  residuals_.assign(count, 0);
  plane_.resize(count);
  for (unsigned byte = 0; byte < width; ++byte) {
    if (bytes.empty()) return std::unexpected(damaged("planes cut short"));
    const char mode = bytes[0];
    bytes.remove_prefix(1);
    if (mode == kZero) continue;
    if (mode == kRaw) {
      if (bytes.size() < count) return std::unexpected(damaged("a plane cut short"));
      std::copy_n(reinterpret_cast<const uint8_t*>(bytes.data()), count, plane_.begin());
      bytes.remove_prefix(count);
    } else if (mode == kZstd) {
      const auto size = take_varint(bytes);
      if (!size || *size > bytes.size() || !decompress_) return std::unexpected(damaged("a plane cut short"));
      const size_t got =
          ZSTD_decompressDCtx(decompress_.get(), plane_.data(), count, bytes.data(), static_cast<size_t>(*size));
      if (ZSTD_isError(got) || got != count) return std::unexpected(damaged("a plane does not unpack"));
      bytes.remove_prefix(static_cast<size_t>(*size));
    } else {
      return std::unexpected(damaged("unknown plane mode"));
    }
    for (size_t i = 0; i < count; ++i) residuals_[i] |= static_cast<uint64_t>(plane_[i]) << (8 * byte);
  }
  if (!bytes.empty()) return std::unexpected(damaged("bytes left over"));
  for (size_t i = 0; i < count; ++i) out[i] = sum(unzigzag(residuals_[i]), expected(how, out, bases, i, length));
  return {};
}

}  // namespace stepscope::store
