#include "serve/access.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

struct Asked {
  std::string target = "/api/v1/runs", host = "127.0.0.1:8765", origin, site, bearer, cookie, method = "GET";
};

// Status of the refusal, 0 = let in.
int status(const Asked& asked) {
  const Access access(kToken, "f00d", {"node-1"});
  HttpRequest request{.method = asked.method, .target = asked.target, .host = asked.host, .origin = asked.origin};
  request.fetch_site = asked.site, request.authorization = asked.bearer, request.cookie = asked.cookie;
  const auto target = parse_target(asked.target);
  EXPECT_TRUE(target);
  const auto refused = access.refusal(request, *target);
  return refused ? refused->status : 0;
}

TEST(Access, TheTokenComesByHeaderParameterOrCookie) {
  const std::string token = kToken;
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({.bearer = "Bearer " + token}), 0);
  EXPECT_EQ(status({.bearer = "bearer " + token}), 0);
  EXPECT_EQ(status({.target = "/api/v1/runs?token=" + token}), 0);
  EXPECT_EQ(status({.cookie = "a=b; stepscope-f00d=" + token}), 0);
  // Of another server on this machine, cut short, longer, none at all.
  EXPECT_EQ(status({.cookie = "stepscope-beef=" + token}), 401);
  EXPECT_EQ(status({.bearer = "Bearer " + token.substr(1)}), 401);
  EXPECT_EQ(status({.bearer = "Bearer " + token + "0"}), 401);
  EXPECT_EQ(status({.bearer = token}), 401);
  EXPECT_EQ(status({.target = "/?token="}), 401);
}

TEST(Access, ANamePointedHereByAStrangerIsRefused) {
  const std::string bearer = std::string("Bearer ") + kToken;
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8765", "node-1:80"})
    EXPECT_EQ(status({.host = host, .bearer = bearer}), 0) << host;
  for (const char* host : {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil:8765", "[::2]", "10.0.0.1"})
    EXPECT_EQ(status({.host = host, .bearer = bearer}), 421) << host;
}

TEST(Access, PagesOfOtherOriginsReadNothing) {
  const std::string bearer = std::string("Bearer ") + kToken;
  EXPECT_EQ(status({.origin = "http://127.0.0.1:8765", .bearer = bearer}), 0);
  for (const char* origin : {"http://evil.example", "http://127.0.0.1:9999", "null", "http://localhost:8765"})
    EXPECT_EQ(status({.origin = origin, .bearer = bearer}), 403) << origin;
  EXPECT_EQ(status({.site = "cross-site", .bearer = bearer}), 403);
  EXPECT_EQ(status({.site = "same-origin", .bearer = bearer}), 0);
  // A link on another page may lead to the front page; what it shows is its own business.
  EXPECT_EQ(status({.target = std::string("/?token=") + kToken, .site = "cross-site"}), 0);
}

TEST(Access, NothingCanBeChanged) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get", ""})
    EXPECT_EQ(status({.bearer = std::string("Bearer ") + kToken, .method = method}), 405) << method;
}

TEST(Access, SecretsAreTheSameOnlyWhole) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "ABC"}) EXPECT_FALSE(same_secret(other, "abc"));
  EXPECT_FALSE(same_secret("", ""));
}

TEST(Access, FramesNeedTheSecretOfTheRunAndNoBrowser) {
  const std::string secret = "fedcba9876543210fedcba9876543210";
  const auto status_of = [&](const std::string& authorization, const std::string& origin = "",
                             const std::string& site = "", const std::string& known = "") {
    const HttpRequest request{.method = "POST",
                              .target = "/api/v1/nodes/frames",
                              .host = "10.0.0.1",
                              .origin = origin,
                              .fetch_site = site,
                              .authorization = authorization,
                              .cookie = "stepscope-f00d=" + secret};
    const auto refused = node_refusal(request, known.empty() ? secret : known);
    return refused ? refused->status : 0;
  };
  EXPECT_EQ(status_of("Bearer " + secret), 0);
  EXPECT_EQ(status_of("Bearer " + std::string(kToken)), 401);
  EXPECT_EQ(status_of(""), 401);
  EXPECT_EQ(status_of("Bearer "), 401);
  EXPECT_EQ(status_of(secret), 401);
  EXPECT_EQ(status_of("Bearer " + secret, "http://10.0.0.1"), 403);
  EXPECT_EQ(status_of("Bearer " + secret, "", "same-origin"), 403);
}

}  // namespace
}  // namespace stepscope
