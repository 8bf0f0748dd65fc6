#include "serve/openapi.h"

#include <nlohmann/json.hpp>

#include "serve/routes.h"

namespace stepscope {
namespace {

using Json = nlohmann::ordered_json;

// What a path names in braces.
constexpr RouteParameter kPathParameters[] = {
    {"run", RouteParameter::Kind::kRun, true, "name of the run's folder"},
    {"step", RouteParameter::Kind::kStep, true, "step number"},
};

Json schema_of(const RouteParameter& parameter) {
  switch (parameter.kind) {
    case RouteParameter::Kind::kStep: return {{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxStep}};
    case RouteParameter::Kind::kBins: return {{"type", "integer"}, {"minimum", 1}, {"maximum", kMaxBins}};
    case RouteParameter::Kind::kMeasure: return {{"type", "string"}, {"enum", kMeasureNames}};
    case RouteParameter::Kind::kRun: return {{"type", "string"}, {"minLength", 1}, {"maxLength", 255}};
  }
  return Json::object();
}

Json parameters_of(const RouteInfo& route) {
  Json out = Json::array();
  const auto add = [&](const RouteParameter& parameter, const char* in) {
    out.push_back({{"name", parameter.name},
                   {"in", in},
                   {"required", parameter.required},
                   {"description", parameter.meaning},
                   {"schema", schema_of(parameter)}});
  };
  for (const RouteParameter& parameter : kPathParameters)
    if (route.path.find("{" + std::string(parameter.name) + "}") != std::string_view::npos) add(parameter, "path");
  for (const RouteParameter& parameter : route.parameters) add(parameter, "query");
  return out;
}

Json error_answer(const char* meaning) {
  return {{"description", meaning},
          {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
}

Json answers_of(const RouteInfo& route) {
  Json content = Json::object();
  content[std::string(route.type)]["schema"] =
      route.schema.empty() ? Json{{"type", "string"}}
                           : Json{{"$ref", "#/components/schemas/" + std::string(route.schema)}};
  Json out = {{"200", {{"description", "OK"}, {"content", std::move(content)}}}};
  out["400"] = error_answer("No address");
  out["401"] = error_answer("The token is missing or wrong");
  out["403"] = error_answer("A web page of another origin asks");
  if (route.path.find("run") != std::string_view::npos || !route.parameters.empty()) {
    out["404"] = error_answer("No such run or step, or it cannot be read");
    out["422"] = error_answer("A parameter cannot be used");
  }
  out["503"] = error_answer("Too much is asked for at once");
  return out;
}

// Only a server that takes part in a run over several nodes has it; others answer 404.
Json frames_post(const RouteInfo& route) {
  const Json bytes = {{std::string(route.type), {{"schema", {{"type", "string"}, {"format", "binary"}}}}}};
  Json answers = {{"200", {{"description", "Taken in"}, {"content", bytes}}}};
  answers["400"] = error_answer("No frame");
  answers["401"] = error_answer("The secret is missing or wrong");
  answers["403"] = error_answer("A web page asks");
  answers["404"] = error_answer("This server takes no frames");
  answers["408"] = error_answer("The frame took too long to arrive");
  answers["409"] = error_answer("The sender is of another version");
  answers["413"] = error_answer("The frame is too large");
  answers["503"] = error_answer("Too much waits to be taken in; to be sent again");
  return {{"summary", route.summary},
          {"security", {{{"secret", Json::array()}}}},
          {"requestBody", {{"required", true}, {"content", bytes}}},
          {"responses", std::move(answers)}};
}

}  // namespace

std::string openapi_json() {
  Json paths = Json::object();
  for (const RouteInfo& route : routes())
    if (route.route == Route::kNodeFrames)
      paths[std::string(route.path)]["post"] = frames_post(route);
    else
      paths[std::string(route.path)]["get"] = {
          {"summary", route.summary}, {"parameters", parameters_of(route)}, {"responses", answers_of(route)}};
  const Json bearer = {{"type", "http"}, {"scheme", "bearer"}};
  const Json secret = {{"type", "http"}, {"scheme", "bearer"}, {"description", "the secret of the run, not the token"}};
  const Json out = {
      {"openapi", "3.1.0"},
      {"info", {{"title", "stepscope"}, {"version", "1"}}},
      {"security", {{{"token", Json::array()}}}},
      {"paths", std::move(paths)},
      {"components",
       {{"securitySchemes", {{"token", bearer}, {"secret", secret}}}, {"schemas", Json::parse(api_schemas())}}}};
  return out.dump(1) + "\n";
}

}  // namespace stepscope
