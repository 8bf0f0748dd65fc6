// For fuzzers whose inputs are changes to a good image, so that depth is reached without a corpus: a list of place (3 bytes,
// big endian, modulo the image's size), length (1 byte), bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace stepscope::examples {

inline std::string changed(std::string image, const uint8_t* data, size_t size) {
  while (size >= 4 && !image.empty()) {
    const size_t at = (size_t{data[0]} << 16 | size_t{data[1]} << 8 | data[2]) % image.size();
    const size_t length = std::min({size_t{data[3]}, size - 4, image.size() - at});
    std::copy_n(data + 4, length, image.begin() + static_cast<ptrdiff_t>(at));
    data += 4 + length;
    size -= 4 + length;
  }
  return image;
}

}  // namespace stepscope::examples
