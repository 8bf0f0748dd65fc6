#include "store/pack.h"

#include <zstd.h>

namespace stepscope::store {
namespace {
constexpr int kBlobLevel = 3;
}

std::optional<std::string> pack(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kBlobLevel);
  if (ZSTD_isError(size) || size >= bytes.size()) return std::nullopt;
  out.resize(size);
  return out;
}

std::optional<std::string> unpack(std::string_view packed, size_t size) {
  std::string out(size, '\0');
  if (ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size()) != size) return std::nullopt;
  return out;
}

}  // namespace stepscope::store
