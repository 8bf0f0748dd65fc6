// Private to the .cc files of this room: HTML from untrusted text.
#pragma once

#include <string>
#include <string_view>

namespace stepscope {

// Valid UTF-8 with & < > " ' escaped: fit for element content and quoted attributes.
std::string html_escaped(std::string_view text);

// The style sheet of our pages, without <style>. Category colours are the classes c-<category name>.
std::string html_style();

}  // namespace stepscope
