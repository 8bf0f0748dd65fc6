// The pages of docs/findings, built into the binary (cmake/embed_pages.cmake writes explain_pages.cc).
#pragma once

#include <span>
#include <string_view>

namespace stepscope {

struct ExplainPage {
  std::string_view slug;  // "compute-straggler"
  std::string_view text;  // Markdown
};

std::span<const ExplainPage> explain_pages();

}  // namespace stepscope
