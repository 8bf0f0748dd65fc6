// A page of terminal text: headings, labelled paragraphs, tables; never wider than its columns. Colour is added around
// finished text, only when asked. All text is made printable here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diagnose/finding.h"
#include "report/table.h"

namespace stepscope {

// SGR parameters; empty = plain.
namespace ink {
inline constexpr std::string_view kPlain = "", kBold = "1", kDim = "2", kRed = "1;31", kYellow = "1;33", kGreen = "32",
                                  kCyan = "36";
std::string_view of(Severity severity);
}  // namespace ink

class TextPage {
 public:
  TextPage(size_t columns, bool color) : columns_(columns), color_(color) {}

  size_t columns() const { return columns_; }
  const std::string& text() const { return out_; }

  // A piece of a line with its own style.
  struct Piece {
    std::string text;
    std::string_view style = ink::kPlain;
  };
  // One line, cut at the right edge. Trailing blanks are dropped.
  void line(const std::vector<Piece>& pieces);
  void blank() { out_ += '\n'; }
  void rule();
  void heading(std::string_view title, std::string_view aside = "");
  // `label` in the left margin of `margin` columns, the text wrapped right of it. Nothing for empty text.
  void paragraph(std::string_view label, std::string_view text, size_t margin, std::string_view style = ink::kPlain);
  // The same for a list of short phrases, joined by " · ".
  void phrases(std::string_view label, const std::vector<std::string>& items, size_t margin,
               std::string_view style = ink::kPlain);
  // Indented by two; culprits are marked left of their row.
  void table(const Table& table);

 private:
  void labelled(std::string_view label, const std::vector<std::string>& lines, size_t margin, std::string_view style);

  size_t columns_;
  bool color_;
  std::string out_;
};

}  // namespace stepscope
