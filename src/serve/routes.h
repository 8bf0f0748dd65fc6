// The routes of the server: one table (routes.cc) from which requests are told apart and the OpenAPI description is
// made, so that neither can say what the other does not do. Pure; input from anywhere.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http_message.h"
#include "serve/target.h"

namespace stepscope {

enum class Route : uint8_t {
  kAsset,
  kRuns,
  kSummary,
  kPage,
  kFindings,
  kLedger,
  kRanks,
  kCollectives,
  kSteps,
  kStep,
  kHeat,
  kSamples,
  kCompare,
  kEvents,
  kMetrics,
  kOpenApi,
  kNodeFrames,  // POST alone; everything else is GET and HEAD
};

// Which figure of a rank's step a heat map shows.
enum class Measure : uint8_t { kOwn, kWait, kInput, kMemory };
inline constexpr std::string_view kMeasureNames[] = {"own", "wait", "input", "memory"};

inline constexpr uint32_t kMaxBins = 4096;
inline constexpr int64_t kMaxStep = int64_t{1} << 53;  // what JavaScript's numbers hold

// What a request asks for, checked. Parameters that a route does not have are refused.
struct Call {
  Route route = Route::kAsset;
  std::string run;            // name of a run
  std::string asset;          // path of a file of the browser view, "" = the front page
  std::string a, b;           // runs to compare
  int64_t step = -1;          // of kStep
  int64_t from = 0, to = -1;  // steps, both included; -1 = the newest
  uint32_t bins = 1024;       // at most so many columns
  Measure measure = Measure::kOwn;
};

struct RouteParameter {
  std::string_view name;
  enum class Kind : uint8_t { kStep, kBins, kMeasure, kRun } kind = Kind::kStep;
  bool required = false;
  std::string_view meaning;
};

struct RouteInfo {
  Route route;
  std::string_view path;                   // "/api/v1/runs/{run}/steps/{step}"
  std::string_view summary, type, schema;  // schema: of api_schemas.json; "" = none
  std::vector<RouteParameter> parameters;
};

std::span<const RouteInfo> routes();

// The one route that takes a body.
bool takes_body(const Target& target);

// What is wrong is an answer with 400, 404 or 422 and one line.
std::expected<Call, HttpAnswer> parse_call(const Target& target);

}  // namespace stepscope
