// Small files whole: read with a bound, written so that a reader sees the old text or the new, never half of it.
// Failure: one line that names the path and the system's reason. Nothing here blocks beyond the disk itself.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stepscope {

// "No such file or directory": the text of an errno value, for messages.
std::string errno_text(int error);

// The whole file, at most `max_bytes` of it (the rest is cut off, silently: callers bound what they trust).
Result<std::string> read_file(const std::string& path, size_t max_bytes = 16u << 20);

// Writes everything or fails. `where` names the target in the message.
Status write_all(int fd, std::string_view bytes, const std::string& where);

// Writes <path> by way of a temporary file beside it and rename(2). Mode 0600 unless given. A failed write leaves the
// old file as it was and no temporary file behind.
Status write_file_atomic(const std::string& path, std::string_view bytes, mode_t mode = 0600);

// mkdir -p; folders that are made get `mode`. A folder that exists already is no error.
Status make_dirs(const std::string& path, mode_t mode = 0700);

// Names of the entries of a folder, sorted, without "." and "..". At most `max_entries`.
Result<std::vector<std::string>> list_dir(const std::string& path, size_t max_entries = 65536);

// Removes a folder and the plain files in it, not deeper folders: what we made is flat. Never follows a link.
void remove_flat_dir(const std::string& path);

bool is_file(const std::string& path);
bool is_dir(const std::string& path);
std::string path_join(std::string_view folder, std::string_view name);

}  // namespace stepscope
