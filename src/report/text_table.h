// A table as lines of text that never grow beyond a width: the least important columns go first. Pure.
#pragma once

#include <string>
#include <vector>

#include "report/table.h"

namespace stepscope {

struct TextTableLines {
  std::vector<std::string> head;  // titles, then units where a shown column has one; empty when all titles are empty
  std::vector<std::string> rows;  // one line each, in the table's order
};

// Each line at most `columns` wide, made printable, no trailing blanks. The widest columns are cut when even those of
// priority 0 do not fit.
TextTableLines text_table(const Table& table, size_t columns);

}  // namespace stepscope
