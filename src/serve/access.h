// Who may read: decided on header fields alone, before anything else of a request is looked at. Pure; one thread.
//
//   Host     must name this machine as it was told to be called (loopback names, the address it listens on,
//   --allow-host):
//            a web page whose name was pointed at 127.0.0.1 (DNS rebinding) is refused.
//   Origin   where a browser sends one it must be our own; Sec-Fetch-Site: cross-site is refused but for the front
//   page. token    always, on loopback too (other users share a machine): Authorization: Bearer, the parameter `token`,
//   or the
//            cookie that the front page sets. Compared in constant time.
//   method   GET and HEAD: nothing can be changed.
// Frames of other nodes come by their own way (node_refusal) with the secret of the run; neither opens the other's
// door.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "serve/http_message.h"
#include "serve/target.h"

namespace stepscope {

// Cost and time depend on the lengths only.
bool same_secret(std::string_view a, std::string_view b);

// Of a POST of frames: only a program that knows the run's secret, and no web page. `secret` "" = nobody.
std::optional<HttpAnswer> node_refusal(const HttpRequest& request, const std::string& secret);

class Access {
 public:
  // `hosts`: beside localhost, 127.0.0.1 and [::1]. `instance` names the cookie, so that servers on several ports of
  // one machine keep apart.
  Access(std::string token, std::string instance, std::set<std::string> hosts);

  const std::string& token() const { return token_; }
  // What is wrong with the request, as an answer with a message for people; nullopt = let it in.
  std::optional<HttpAnswer> refusal(const HttpRequest& request, const Target& target) const;
  // Set-Cookie of the front page.
  std::string cookie() const;

 private:
  bool host_is_ours(const std::string& host) const;
  bool has_token(const HttpRequest& request, const Target& target) const;

  std::string token_, cookie_name_;
  std::set<std::string> hosts_;
};

}  // namespace stepscope
