// The files of the browser view, embedded by the build, gzip-compressed (cmake/embed_web.cmake). A build without Node
// has none: the front page says so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/http_message.h"

namespace stepscope {

struct WebAsset {
  std::string_view path, type, tag;  // path: "app.js"; "" = the front page. tag: changes with the content
  std::string_view gzip;
};
std::span<const WebAsset> web_assets();  // made by the build

// The file, or 404. `palette.css` is made from the colours of the categories (report/ledger_bar.h).
HttpAnswer asset_answer(const std::string& path, const std::string& if_none_match);
// What the front page says to who has no token.
HttpAnswer locked_page();

}  // namespace stepscope
