#include "report/text_page.h"

#include "report/text_layout.h"
#include "report/text_table.h"

namespace stepscope {

std::string_view ink::of(Severity severity) {
  return severity == Severity::kCrit ? kRed : severity == Severity::kWarn ? kYellow : kGreen;
}

void TextPage::line(const std::vector<Piece>& pieces) {
  size_t room = columns_;
  std::string plain_tail;  // blanks that are only written when something follows
  for (const Piece& piece : pieces) {
    std::string text = clip(printable(piece.text), room);
    room -= display_width(text);
    const size_t end = text.find_last_not_of(' ') + 1;
    if (end == 0) {
      plain_tail += text;
      continue;
    }
    out_ += plain_tail;
    plain_tail = text.substr(end);
    text.resize(end);
    if (color_ && !piece.style.empty()) {
      out_.append("\x1b[").append(piece.style).append("m").append(text).append("\x1b[0m");
    } else {
      out_ += text;
    }
  }
  out_ += '\n';
}

void TextPage::rule() { line({{repeat("─", columns_), ink::kDim}}); }

void TextPage::heading(std::string_view title, std::string_view aside) {
  blank();
  line({{std::string(title), ink::kBold}, {aside.empty() ? "" : "  " + std::string(aside), ink::kDim}});
}

void TextPage::labelled(std::string_view label, const std::vector<std::string>& lines, size_t margin,
                        std::string_view style) {
  std::string head = pad_right(printable(label), margin);
  for (const std::string& part : lines) {
    line({{head, ink::kDim}, {part, style}});
    head.assign(margin, ' ');
  }
}

void TextPage::paragraph(std::string_view label, std::string_view text, size_t margin, std::string_view style) {
  labelled(label, wrap(printable(text), columns_ - margin), margin, style);
}

void TextPage::phrases(std::string_view label, const std::vector<std::string>& items, size_t margin,
                       std::string_view style) {
  std::vector<std::string> clean;
  for (const std::string& item : items) clean.push_back(printable(item));
  labelled(label, wrap_items(clean, " · ", columns_ - margin), margin, style);
}

void TextPage::table(const Table& table) {
  const TextTableLines lines = text_table(table, columns_ - 2);
  for (const std::string& head : lines.head) line({{"  "}, {head, ink::kDim}});
  for (size_t i = 0; i < lines.rows.size(); ++i) {
    const RowMark mark = table.rows[i].mark;
    const std::string_view style = mark == RowMark::kCulprit  ? ink::kYellow
                                   : mark == RowMark::kStrong ? ink::kBold
                                                              : ink::kPlain;
    line({{mark == RowMark::kCulprit ? "▸ " : "  ", style}, {lines.rows[i], style}});
  }
}

}  // namespace stepscope
