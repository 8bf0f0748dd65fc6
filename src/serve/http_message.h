// One request and one answer of the server as plain values: what the socket side (server.cc) and the rest of the room
// tell each other. Pure.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stepscope {

// Header fields that count, as they came; "" = not given. Nothing of it is trusted.
struct HttpRequest {
  std::string method, target;
  std::string host, origin, fetch_site, authorization, cookie, if_none_match, last_event_id;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::shared_ptr<const std::string> body;
  std::vector<std::pair<std::string, std::string>> fields;  // beside those that every answer has
};

HttpAnswer answer_with(int status, std::string type, std::string body);
// {"error": {"status": 404, "message": "…"}}
HttpAnswer answer_error(int status, const std::string& message);

// Reason phrase of the codes that this room uses.
const char* reason_of(int status);

}  // namespace stepscope
