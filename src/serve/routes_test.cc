#include "serve/routes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/openapi.h"

namespace stepscope {
namespace {

std::expected<Call, HttpAnswer> call_of(const std::string& text) {
  const auto target = parse_target(text);
  if (!target) return std::unexpected(answer_error(400, target.error().message));
  return parse_call(*target);
}

int status(const std::string& text) {
  const auto call = call_of(text);
  return call ? 200 : call.error().status;
}

TEST(Routes, APathSaysRouteRunAndStep) {
  const auto call = call_of("/api/v1/runs/my%20run/steps/12");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->route, Route::kStep);
  EXPECT_EQ(call->run, "my run");
  EXPECT_EQ(call->step, 12);
  const auto heat = call_of("/api/v1/runs/a/heat?from=3&to=9&bins=7&measure=wait&token=x");
  ASSERT_TRUE(heat);
  EXPECT_EQ(heat->from, 3);
  EXPECT_EQ(heat->to, 9);
  EXPECT_EQ(heat->bins, 7u);
  EXPECT_EQ(heat->measure, Measure::kWait);
  EXPECT_EQ(call_of("/")->asset, "");
  EXPECT_EQ(call_of("/app.js")->asset, "app.js");
}

TEST(Routes, NoNameLeadsOutOfTheLogsFolder) {
  for (const char* name : {"..", ".", "%2e%2e", "a%2Fb", "..%2f..%2fetc"})
    EXPECT_EQ(status("/api/v1/runs/" + std::string(name) + "/page"), 422) << name;
  EXPECT_EQ(status("/api/v1/runs/a%00b/page"), 400);
  EXPECT_EQ(status("/api/v1/compare?a=x&b=../../etc"), 422);
}

TEST(Routes, WhatCannotBeUsedIsSaid) {
  for (const char* text :
       {"/api/v1/runs/a/steps?from=-1", "/api/v1/runs/a/steps?from=x", "/api/v1/runs/a/steps?bins=0",
        "/api/v1/runs/a/steps?bins=99999", "/api/v1/runs/a/heat?measure=colour", "/api/v1/runs/a/steps?from=9&to=3",
        "/api/v1/runs/a/page?from=1", "/api/v1/compare?a=x", "/api/v1/events", "/api/v1/runs/a/steps/1e3",
        "/api/v1/runs/a/steps?from=99999999999999999999"})
    EXPECT_EQ(status(text), 422) << text;
  for (const char* text : {"/api/v1/nothing", "/api/v1/runs/a", "/api/v1/runs/a/steps/1/2", "/api"})
    EXPECT_EQ(status(text), 404) << text;
  for (const char* text : {"", "x", "/a%2", "/a%zz", "/a//b", "/a?b=1&b=2", "/a\x01"}) EXPECT_EQ(status(text), 400);
  EXPECT_EQ(status("/" + std::string(5000, 'a')), 400);
}

// The description and the routing come from one table; what it names must exist and be well-formed.
TEST(Routes, TheDescriptionNamesEveryRouteAndShape) {
  const auto api = nlohmann::json::parse(openapi_json());
  EXPECT_EQ(api["paths"].size(), routes().size());
  for (const RouteInfo& route : routes()) {
    std::string path(route.path);
    if (const size_t at = path.find("{run}"); at != std::string::npos) path.replace(at, 5, "r");
    if (const size_t at = path.find("{step}"); at != std::string::npos) path.replace(at, 6, "1");
    if (route.route == Route::kCompare) path += "?a=r&b=s";
    if (route.route == Route::kEvents) path += "?run=r";
    const auto call = call_of(path);
    ASSERT_TRUE(call) << path;
    EXPECT_EQ(call->route, route.route) << path;
    EXPECT_TRUE(route.schema.empty() || api["components"]["schemas"].contains(std::string(route.schema))) << path;
  }
}

}  // namespace
}  // namespace stepscope
