# cmake -DIN=<json> -DOUT=<file> -P embed_schemas.cmake: the text as a function. One literal a line: compilers bound them.
file(STRINGS ${IN} lines)
set(body "")
foreach(line ${lines})
  string(APPEND body "    R\"API(${line})API\"\n")
endforeach()
file(WRITE ${OUT} "// Written by cmake/embed_schemas.cmake from src/serve/api_schemas.json.\n#include \"serve/openapi.h\"\n\nnamespace stepscope {\n\n"
  "std::string_view api_schemas() {\n  return\n${body};\n}\n\n}  // namespace stepscope\n")
