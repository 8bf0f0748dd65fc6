#include "serve/access.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr size_t kMaxToken = 256;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// "[::1]:8765" → "[::1]", "localhost:8765" → "localhost".
std::string without_port(const std::string& authority) {
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  return lower(authority.substr(0, colon));
}

// The value of `name` in "a=1; b=2".
std::string_view cookie_value(std::string_view cookies, std::string_view name) {
  for (size_t at = 0; at < cookies.size();) {
    const size_t end = std::min(cookies.find(';', at), cookies.size());
    std::string_view pair = cookies.substr(at, end - at);
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) return pair.substr(name.size() + 1);
    at = end + 1;
  }
  return {};
}

// What stands behind "Bearer ".
std::string_view bearer_of(const HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view bearer = request.authorization;
  if (lower(bearer.substr(0, kBearer.size())) != kBearer) bearer = {};
  bearer.remove_prefix(std::min(kBearer.size(), bearer.size()));
  return bearer;
}

}  // namespace

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || a.empty() || a.size() > kMaxToken) return false;
  unsigned char differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ = static_cast<unsigned char>(differ | (a[i] ^ b[i]));
  return differ == 0;
}

std::optional<HttpAnswer> node_refusal(const HttpRequest& request, const std::string& secret) {
  if (!request.origin.empty() || !request.fetch_site.empty()) return answer_error(403, "web pages may not send frames");
  if (!same_secret(bearer_of(request), secret)) {
    HttpAnswer answer = answer_error(401, "the secret of the run is missing or wrong");
    answer.fields.emplace_back("WWW-Authenticate", "Bearer realm=\"stepscope nodes\"");
    return answer;
  }
  return std::nullopt;
}

Access::Access(std::string token, std::string instance, std::set<std::string> hosts)
    : token_(std::move(token)), cookie_name_("stepscope-" + std::move(instance)), hosts_(std::move(hosts)) {
  hosts_.insert({"localhost", "127.0.0.1", "[::1]"});
}

std::string Access::cookie() const { return cookie_name_ + "=" + token_ + "; Path=/; HttpOnly; SameSite=Strict"; }

bool Access::host_is_ours(const std::string& host) const { return hosts_.contains(without_port(host)); }

bool Access::has_token(const HttpRequest& request, const Target& target) const {
  const std::string_view bearer = bearer_of(request);
  const auto parameter = target.parameters.find("token");
  return same_secret(bearer, token_) || same_secret(cookie_value(request.cookie, cookie_name_), token_) ||
         (parameter != target.parameters.end() && same_secret(parameter->second, token_));
}

std::optional<HttpAnswer> Access::refusal(const HttpRequest& request, const Target& target) const {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpAnswer answer = answer_error(405, "nothing can be changed here: GET and HEAD only");
    answer.fields.emplace_back("Allow", "GET, HEAD");
    return answer;
  }
  if (!host_is_ours(request.host))
    return answer_error(421, "this server is not known by that name; stepscope serve --allow-host NAME lets it in");
  const bool own_origin = request.origin.empty() || lower(request.origin) == "http://" + lower(request.host) ||
                          lower(request.origin) == "https://" + lower(request.host);
  const bool front_page = target.segments.empty();
  if (!own_origin || (request.fetch_site == "cross-site" && !front_page))
    return answer_error(403, "web pages of other origins may not read this server");
  if (!has_token(request, target)) {
    HttpAnswer answer = answer_error(401, "the token is missing or wrong: open the address that stepscope printed");
    answer.fields.emplace_back("WWW-Authenticate", "Bearer realm=\"stepscope\"");
    return answer;
  }
  return std::nullopt;
}

}  // namespace stepscope
