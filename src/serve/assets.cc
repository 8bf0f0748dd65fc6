#include "serve/assets.h"

#include <algorithm>

#include "align/category.h"
#include "report/ledger_bar.h"

namespace stepscope {
namespace {

std::string page_of(std::string_view title, std::string_view text) {
  return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width,initial-scale=1\"><title>stepscope</title></head><body><main><h1>" +
         std::string(title) + "</h1><p>" + std::string(text) + "</p></main></body></html>\n";
}

std::string palette_css() {
  std::string out = ":root{";
  for (size_t c = 0; c < kCategoryCount; ++c)
    out += "--c-" + std::string(kCategoryNames[c]) + ":" + std::string(look(static_cast<Category>(c)).web_colour) + ";";
  out += "}\n";
  for (const std::string_view category : kCategoryNames)
    out += ".c-" + std::string(category) + "{background:var(--c-" + std::string(category) + ");fill:var(--c-" +
           std::string(category) + ")}\n";
  return out;
}

}  // namespace

HttpAnswer locked_page() {
  HttpAnswer answer = answer_with(401, "text/html; charset=utf-8",
                                  page_of("This view is locked",
                                          "Open the address that stepscope printed: it carries the token. After a "
                                          "restart there is a new one."));
  answer.fields.emplace_back("WWW-Authenticate", "Bearer realm=\"stepscope\"");
  return answer;
}

HttpAnswer asset_answer(const std::string& path, const std::string& if_none_match) {
  if (path == "palette.css") return answer_with(200, "text/css; charset=utf-8", palette_css());
  const auto assets = web_assets();
  const auto found = std::find_if(assets.begin(), assets.end(), [&](const WebAsset& a) { return a.path == path; });
  if (found == assets.end()) {
    if (!path.empty()) return answer_error(404, "no such file");
    return answer_with(200, "text/html; charset=utf-8",
                       page_of("No browser view in this build",
                               "It was made without Node. The API is here: <a href=\"openapi.json\">openapi.json</a>"));
  }
  HttpAnswer answer;
  answer.fields.emplace_back("ETag", '"' + std::string(found->tag) + '"');
  if (if_none_match == answer.fields.back().second) {
    answer.status = 304;
    return answer;
  }
  answer.type = found->type;
  answer.fields.emplace_back("Content-Encoding", "gzip");
  answer.body = std::make_shared<const std::string>(found->gzip);
  return answer;
}

}  // namespace stepscope
