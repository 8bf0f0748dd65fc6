#include "cli/kept_output.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/text_format.h"

namespace stepscope {

void KeptOutput::add(std::string_view bytes) {
  if (total_ == 0 && !path_.empty())
    file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  total_ += bytes.size();
  if (file_ && in_file_ + bytes.size() == total_ && write_all(file_.get(), bytes, path_)) in_file_ += bytes.size();
  newest_ += bytes;
  if (newest_.size() >= 2 * kMaxBytes) newest_.erase(0, newest_.size() - kMaxBytes);
}

std::string KeptOutput::show(int fd) {
  std::string_view shown = newest_;
  std::string rest;
  if (total_ > kMaxBytes) {
    if (shown.size() > kMaxBytes) shown.remove_prefix(shown.size() - kMaxBytes);
    const size_t line = shown.find('\n');
    if (line != std::string_view::npos) shown.remove_prefix(line + 1);
    rest =
        formatted("the newest {} of the output; {}", format_bytes(static_cast<double>(shown.size())),
                  in_file_ == total_ ? "all of it is in " + path_
                  : in_file_ > 0 ? "the first " + format_bytes(static_cast<double>(in_file_)) + " of it are in " + path_
                                 : "the rest could not be kept");
  }
  (void)write_all(fd, shown, "output");
  newest_.clear();
  return rest;
}

}  // namespace stepscope
