# cmake -DPAGES=<folder> -DOUT=<file> -P embed_pages.cmake: writes explain_pages.cc from <folder>/*.md (README.md left out).
file(GLOB pages ${PAGES}/*.md)
list(SORT pages)
set(body "")
foreach(page ${pages})
  get_filename_component(slug ${page} NAME_WE)
  if(NOT slug STREQUAL "README")
    file(READ ${page} text)
    string(APPEND body "    {\"${slug}\", R\"PAGE(${text})PAGE\"},\n")
  endif()
endforeach()
file(WRITE ${OUT} "// Written by cmake/embed_pages.cmake from docs/findings.\n#include \"cli/explain_pages.h\"\n\nnamespace stepscope {\n\n"
  "static constexpr ExplainPage kPages[] = {\n${body}};\n\nstd::span<const ExplainPage> explain_pages() { return kPages; }\n\n}  // namespace stepscope\n")
