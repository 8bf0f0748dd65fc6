#include "report/html_text.h"

#include "align/category.h"
#include "report/ledger_bar.h"
#include "report/text_layout.h"

namespace stepscope {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--ink:#1c2024;--soft:#60646c;--line:#e4e4e0;--fill:#f1f1ee;
--crit:#c8252c;--warn:#b45f06;--info:#2b7a4b;--accent:#2a6fdb;
--h0:#dfe8ee;--h1:#c9dbe6;--h2:#f7dfa6;--h3:#f2bd6b;--h4:#ea8f4d;--h5:#d9573f;--h6:#a81d3b}
@media(prefers-color-scheme:dark){:root{--bg:#15171a;--card:#1c1f23;--ink:#e8e9ea;--soft:#9aa0a8;--line:#2e3237;--fill:#24282d;
--crit:#ff6a70;--warn:#f0a24a;--info:#63c48a;--accent:#7db2ff;
--h0:#27333c;--h1:#33444f;--h2:#6d5a2c;--h3:#96692c;--h4:#bd6a2c;--h5:#d9573f;--h6:#ff5a70}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 24px 48px}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 14px;margin-bottom:18px}
header .brand{color:var(--soft);font-weight:600;letter-spacing:.02em}
header h1{font-size:20px;margin:0;font-weight:650;overflow-wrap:anywhere}
.phrases{font-size:14px}.alert{color:var(--warn)}.plain{color:var(--ink)}.phrases span+span::before{content:"·";margin:0 8px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 22px;margin:0 0 18px;break-inside:avoid}
.verdict{border-left:5px solid var(--tone)}
.crit{--tone:var(--crit)}.warn{--tone:var(--warn)}.info{--tone:var(--info)}.none{--tone:var(--soft)}
.badge{color:var(--tone);font-weight:700;font-size:13px;letter-spacing:.05em}
.badge small{color:var(--soft);font-weight:500;letter-spacing:0;margin-left:8px}
.verdict h2{font-size:23px;line-height:1.3;margin:4px 0 12px;font-weight:650;overflow-wrap:anywhere}
.numbers{display:flex;flex-wrap:wrap;gap:8px 36px;margin:14px 0}
.numbers b{display:block;font-size:17px;font-weight:650}.numbers span{color:var(--soft);font-size:13px}
.next{background:var(--fill);border-radius:8px;padding:10px 14px;margin-top:12px;overflow-wrap:anywhere}
.next b{margin-right:8px}code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
h3{font-size:15px;margin:0 0 10px;font-weight:650}h3 small{color:var(--soft);font-weight:400;font-size:13px;margin-left:8px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}.scroll+.phrases{margin-top:8px}
th{font-weight:500;color:var(--soft);font-size:13px;text-align:right;padding:3px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
td{text-align:right;padding:4px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
tr:last-child td{border-bottom:0}
th small{font-size:11px}
.left{text-align:left}td.left{overflow-wrap:break-word;white-space:normal}
tr.mark td{font-weight:650;color:var(--crit)}tr.strong td{font-weight:650}
h4{font-size:13px;margin:14px 0 2px;font-weight:600;color:var(--soft)}
.facts{width:auto;margin:2px 0 8px}.facts td{border:0;padding:2px 18px 2px 0;white-space:normal}.facts td+td+td{font-weight:650}
.facts td+td+td+td,.facts .soft{font-weight:400;color:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:5px 22px;margin-top:10px;font-size:14px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:7px;vertical-align:-1px}
.legend b{font-weight:600;margin-left:5px}.soft{color:var(--soft)}
svg{display:block;width:100%}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:4px 12px;align-items:center;margin-top:16px;font-size:13px;font-variant-numeric:tabular-nums}
.bars svg{border-radius:3px}.bars .mark{color:var(--crit);font-weight:650}
.heat{display:grid;grid-template-columns:auto 1fr;gap:2px 10px;align-items:stretch;font-size:12px;color:var(--soft)}
.heat .labels{display:flex;flex-direction:column;justify-content:space-around;text-align:right;line-height:1}
.axis{display:flex;justify-content:space-between}
.series{stroke:var(--accent);fill:none;stroke-width:1.2;vector-effect:non-scaling-stroke}
.area{fill:var(--accent);fill-opacity:.1}
.median{stroke:var(--soft);stroke-dasharray:4 4;stroke-width:1;vector-effect:non-scaling-stroke}
.h0{fill:var(--h0);background:var(--h0)}.h1{fill:var(--h1);background:var(--h1)}.h2{fill:var(--h2);background:var(--h2)}
.h3{fill:var(--h3);background:var(--h3)}.h4{fill:var(--h4);background:var(--h4)}.h5{fill:var(--h5);background:var(--h5)}
.h6{fill:var(--h6);background:var(--h6)}
.sections{display:grid;grid-template-columns:repeat(auto-fit,minmax(380px,1fr));gap:18px 28px}
.sections section{border-left:3px solid var(--tone);padding-left:14px}
.sections h4{margin:0;color:var(--ink);font-size:14px}.sections p{margin:3px 0;font-size:14px;overflow-wrap:anywhere}
.sections dl{display:grid;grid-template-columns:auto 1fr;gap:1px 12px;margin:6px 0 0;font-size:13px}
.sections dt{color:var(--soft)}.sections dd{margin:0}
.findings>div{padding:9px 0;border-bottom:1px solid var(--line)}.findings>div:last-child{border-bottom:0;padding-bottom:0}
.findings p{margin:2px 0;overflow-wrap:anywhere}.findings small{color:var(--soft)}.findings p.soft{font-size:14px}
.card>p{margin:8px 0 0;font-size:14px;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:13px;overflow-wrap:anywhere}footer p{margin:3px 0}
@media print{:root{color-scheme:light}body{background:#fff;font-size:12px}main{max-width:none;padding:0}.card{box-shadow:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}.scroll{overflow:visible}}
)css";

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_style() {
  std::string out(kStyle);
  for (size_t i = 0; i < kCategoryCount; ++i) {
    const std::string_view colour = look(static_cast<Category>(i)).web_colour;
    out.append(".c-")
        .append(kCategoryNames[i])
        .append("{fill:")
        .append(colour)
        .append(";background:")
        .append(colour)
        .append("}\n");
  }
  return out;
}

}  // namespace stepscope
