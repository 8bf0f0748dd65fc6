// Bytes as fewer bytes, as a whole: zstd. Pure; some contexts of zstd are made and freed in each call.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace stepscope::store {

// nullopt where that makes them no fewer.
std::optional<std::string> pack(std::string_view bytes);
// Exactly `size` bytes, which the caller bounds; nullopt where the packed ones are damaged or hold another number.
std::optional<std::string> unpack(std::string_view packed, size_t size);

}  // namespace stepscope::store
