#include "serve/http_message.h"

#include <nlohmann/json.hpp>

namespace stepscope {

HttpAnswer answer_with(int status, std::string type, std::string body) {
  return {.status = status,
          .type = std::move(type),
          .body = std::make_shared<const std::string>(std::move(body)),
          .fields = {}};
}

HttpAnswer answer_error(int status, const std::string& message) {
  const nlohmann::ordered_json error = {{"error", {{"status", status}, {"message", message}}}};
  return answer_with(status, "application/json",
                     error.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

const char* reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Payload Too Large";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
  }
}

}  // namespace stepscope
