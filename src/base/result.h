// Result<T>: a value or an Error. Errors carry one line for the user; no exception crosses a room's border.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace stepscope {

struct Error {
  std::string message;  // one line, says what and where; no trailing newline
};

template <class T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> fail(std::string message) { return std::unexpected(Error{std::move(message)}); }

}  // namespace stepscope
