# The browser view (web/) and the shapes of the API, as sources of the room serve. Without Node, or where its packages
# cannot be had, the view is left out and the front page says so (src/serve/assets.cc).
set(generated ${CMAKE_BINARY_DIR}/generated/serve)
file(MAKE_DIRECTORY ${generated})

set(schemas_cc ${generated}/api_schemas.cc)
add_custom_command(OUTPUT ${schemas_cc}
  COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_SOURCE_DIR}/src/serve/api_schemas.json -DOUT=${schemas_cc}
    -P ${CMAKE_SOURCE_DIR}/cmake/embed_schemas.cmake
  DEPENDS ${CMAKE_SOURCE_DIR}/src/serve/api_schemas.json ${CMAKE_SOURCE_DIR}/cmake/embed_schemas.cmake)

set(assets_cc ${generated}/web_assets.cc)
find_program(NODE node)
find_program(NPM npm)
if(NODE AND NPM)
  file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/src/* ${CMAKE_SOURCE_DIR}/web/tools/*)
  add_custom_command(OUTPUT ${assets_cc}
    COMMAND ${NODE} tools/embed.mjs ${NPM} ${assets_cc}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/web
    DEPENDS ${web_sources} ${CMAKE_SOURCE_DIR}/web/package-lock.json ${CMAKE_SOURCE_DIR}/docs/schema/openapi.json)
else()
  message(WARNING "no node and npm: the browser view is left out of this build")
  file(WRITE ${assets_cc} "#include \"serve/assets.h\"\nnamespace stepscope {\n"
    "std::span<const WebAsset> web_assets() { return {}; }\n}\n")
endif()
target_sources(ss_serve PRIVATE ${schemas_cc} ${assets_cc})
