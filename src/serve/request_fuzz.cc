// Bytes of a request as header fields and target: nothing may crash, and what is let in holds its bounds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "serve/access.h"
#include "serve/routes.h"
#include "serve/target.h"

using namespace stepscope;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Access access("0123456789abcdef0123456789abcdef", "f00d", {"node-1"});
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Lines: target, method, host, origin, fetch site, authorization, cookie.
  HttpRequest request;
  std::string* const fields[] = {&request.target,     &request.method,        &request.host,  &request.origin,
                                 &request.fetch_site, &request.authorization, &request.cookie};
  size_t at = 0;
  for (std::string* field : fields) {
    const size_t end = std::min(text.find('\n', at), text.size());
    *field = text.substr(std::min(at, text.size()), end - std::min(at, end));
    at = end + 1;
  }
  const auto target = parse_target(request.target);
  if (!target) return 0;
  if (target->segments.size() > kMaxTargetSegments || target->parameters.size() > kMaxTargetParameters) std::abort();
  const auto refused = access.refusal(request, *target);
  // Nobody comes in without the token.
  if (!refused && text.find(access.token()) == std::string::npos && request.target.find('%') == std::string::npos)
    std::abort();
  // Nor does a frame without the secret, and the token is none.
  static const std::string secret = "fedcba9876543210fedcba9876543210";
  if (!node_refusal(request, secret) && request.authorization.find(secret) == std::string::npos) std::abort();
  if (!node_refusal(request, "")) std::abort();
  const auto call = parse_call(*target);
  if (takes_body(*target) != (call && call->route == Route::kNodeFrames)) std::abort();
  if (!call) return call.error().status >= 400 ? 0 : (std::abort(), 0);
  if (call->bins < 1 || call->bins > kMaxBins || call->from < 0 || call->from > kMaxStep) std::abort();
  if (call->run.find('/') != std::string::npos || call->run == "..") std::abort();
  return 0;
}
