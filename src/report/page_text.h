// The parts of a page as lines of text: what the text summary and the terminal view share. Pure; never wider than the
// text page.
#pragma once

#include "report/page.h"
#include "report/text_page.h"

namespace stepscope {

// Name, headline, costs, saving, next step, then why.
void write_verdict(TextPage& page, const Verdict& verdict);

void write_element(TextPage& page, const Element& element);

}  // namespace stepscope
