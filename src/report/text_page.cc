#include "report/text_page.h"

#include "report/text_layout.h"
#include "report/text_table.h"

namespace stepscope {

void TextPage::line(const Line& pieces) {
  Line& line = lines_.emplace_back();
  size_t room = columns_;
  std::string blanks;  // only kept when something follows
  for (const Piece& piece : pieces) {
    std::string text = clip(printable(piece.text), room);
    room -= display_width(text);
    const size_t end = text.find_last_not_of(' ') + 1;
    if (end == 0) {
      blanks += text;
      continue;
    }
    if (!blanks.empty()) line.push_back({blanks});
    blanks = text.substr(end);
    text.resize(end);
    line.push_back({std::move(text), piece.style});
  }
}

std::string TextPage::text(bool color) const {
  std::string out;
  for (const Line& line : lines_) {
    for (const Piece& piece : line) {
      const std::string parameters = color ? sgr(piece.style) : "";
      if (parameters.empty())
        out += piece.text;
      else
        out.append("\x1b[").append(parameters).append("m").append(piece.text).append("\x1b[0m");
    }
    out += '\n';
  }
  return out;
}

void TextPage::rule() { line({{repeat("─", columns_), ink::kDim}}); }

void TextPage::heading(std::string_view title, std::string_view aside) {
  blank();
  line({{std::string(title), ink::kBold}, {aside.empty() ? "" : "  " + std::string(aside), ink::kDim}});
}

void TextPage::labelled(std::string_view label, const std::vector<std::string>& lines, size_t margin, Ink style) {
  std::string head = pad_right(printable(label), margin);
  for (const std::string& part : lines) {
    line({{head, ink::kDim}, {part, style}});
    head.assign(margin, ' ');
  }
}

void TextPage::paragraph(std::string_view label, std::string_view text, size_t margin, Ink style) {
  labelled(label, wrap(printable(text), columns_ - margin), margin, style);
}

void TextPage::phrases(std::string_view label, const std::vector<std::string>& items, size_t margin, Ink style) {
  std::vector<std::string> clean;
  for (const std::string& item : items) clean.push_back(printable(item));
  labelled(label, wrap_items(clean, " · ", columns_ - margin), margin, style);
}

void TextPage::table(const Table& table) {
  const TextTableLines lines = text_table(table, columns_ - 2);
  for (const std::string& head : lines.head) line({{"  "}, {head, ink::kDim}});
  for (size_t i = 0; i < lines.rows.size(); ++i) {
    const RowMark mark = table.rows[i].mark;
    const Ink style = mark == RowMark::kCulprit ? ink::kYellow : mark == RowMark::kStrong ? ink::kBold : ink::kPlain;
    line({{mark == RowMark::kCulprit ? "▸ " : "  ", style}, {lines.rows[i], style}});
  }
}

}  // namespace stepscope
