// The OpenAPI 3.1 description of the server: the routes of routes.cc with the shapes of api_schemas.json (embedded by
// the build). Served as /openapi.json; docs/schema/openapi.json is the same text and what the types of web/ are made
// of.
#pragma once

#include <string>
#include <string_view>

namespace stepscope {

std::string_view api_schemas();  // made by cmake/embed_web.cmake
std::string openapi_json();

}  // namespace stepscope
