// The style sheet of a report: type, colors by the reader's preference, one column on a phone.
#pragma once

#include <string_view>

namespace planck::cli {

inline constexpr std::string_view kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #fcfcfb; --card: #ffffff; --ink: #1a1a19; --soft: #5f5e5a; --faint: #8b8a85;
  --rule: #e6e4de; --good: #1c7c54; --bad: #c2371f; --muted: #c9c7bf;
  --c0: #2a78d6; --c1: #d9622b; --c2: #178f65; --c3: #b27a00; --c4: #c74c86; --c5: #5a49b8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #161615; --card: #1e1e1c; --ink: #f1f0ec; --soft: #b4b2ab; --faint: #85837c;
    --rule: #33322f; --good: #5cc795; --bad: #ff8a70; --muted: #55534d;
    --c0: #5a9dee; --c1: #ee8450; --c2: #3fc08f; --c3: #d8a032; --c4: #e77fae; --c5: #a296f2;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 62rem; margin: 0 auto; padding: 3.5rem 1.5rem 3rem; }
h1 {
  margin: 0; font-size: clamp(1.75rem, 5vw, 2.5rem); line-height: 1.15; font-weight: 650;
  letter-spacing: -0.022em; overflow-wrap: anywhere; text-wrap: balance;
}
h2 { margin: 0; font-size: 1.2rem; line-height: 1.3; font-weight: 650; letter-spacing: -0.01em; }
h3 { margin: 0 0 .5rem; font-size: .875rem; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .3rem 0 0; max-width: 48rem; color: var(--soft); overflow-wrap: anywhere; text-wrap: pretty; }
section { margin-top: 3.25rem; }
section > * + * { margin-top: 1.1rem; }
section > h2 + p { margin-top: .3rem; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 1.1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; margin: 2.25rem 0 0; }
.figures div { border-top: 2px solid var(--ink); padding-top: .7rem; }
.figures dt { font-size: .875rem; color: var(--soft); }
.figures dd { margin: 0; }
.figures .number { font-size: 2rem; line-height: 1.2; font-weight: 600; letter-spacing: -0.02em; }
.figures .of { font-size: .875rem; color: var(--faint); overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.3rem; padding: 0; list-style: none; font-size: .9rem; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: .5rem; overflow-wrap: anywhere; }
.legend svg { flex: none; width: 22px; height: 10px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 12px; fill: var(--faint); }
.grid { stroke: var(--rule); stroke-width: 1; }
.base { stroke: var(--muted); stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.again { stroke-dasharray: 5 5; }
.end { stroke: var(--card); stroke-width: 1.5; }
circle.again { stroke-dasharray: none; }
.touch { fill: transparent; }
svg .value { font-weight: 600; }
path.s0, line.s0 { stroke: var(--c0); } circle.s0, svg .t0 { fill: var(--c0); }
path.s1, line.s1 { stroke: var(--c1); } circle.s1, svg .t1 { fill: var(--c1); }
path.s2, line.s2 { stroke: var(--c2); } circle.s2, svg .t2 { fill: var(--c2); }
path.s3, line.s3 { stroke: var(--c3); } circle.s3, svg .t3 { fill: var(--c3); }
path.s4, line.s4 { stroke: var(--c4); } circle.s4, svg .t4 { fill: var(--c4); }
path.s5, line.s5 { stroke: var(--c5); } circle.s5, svg .t5 { fill: var(--c5); }
.scroll { overflow-x: auto; padding: .35rem 1.1rem; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .6rem 0 .6rem 1.5rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 6.5rem; }
th { font-size: .8rem; font-weight: 500; color: var(--soft); vertical-align: bottom; }
tbody tr { border-top: 1px solid var(--rule); }
td:first-child { font-weight: 600; }
.bar { display: block; width: 9rem; height: .4rem; margin: .3rem 0 .1rem auto; } .track { fill: var(--rule); }
.error { fill: none; stroke: var(--ink); stroke-width: 1.2; vector-effect: non-scaling-stroke; }
.findings { margin: 1rem 0 0; padding-left: 1.1rem; max-width: 48rem; color: var(--soft); }
.findings li + li { margin-top: .4rem; }
.confusion .d { fill: var(--rule); } .confusion .k0 { fill: var(--paper); }
.confusion .k1, .confusion .k2, .confusion .k3, .confusion .k4, .confusion .k5 { fill: var(--bad); }
.confusion .k1 { fill-opacity: .16; } .confusion .k2 { fill-opacity: .32; } .confusion .k3 { fill-opacity: .48; }
.confusion .k4 { fill-opacity: .64; } .confusion .k5 { fill-opacity: .8; }
.confusion .hits { fill: var(--soft); } .confusion .misses { fill: var(--ink); font-weight: 600; }
.histograms p { font-size: .85rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.3rem; margin: 1.1rem 0 0; font-size: .9rem; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
td small { display: block; font-size: .8rem; color: var(--faint); }
.pairs { display: grid; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); gap: 1rem; }
.pair { padding: .9rem; }
.pair .images { display: grid; grid-template-columns: 1fr 1.6rem 1fr; align-items: center; }
.pair .images span { text-align: center; color: var(--faint); font-size: .8rem; }
.image { background: var(--paper); border-radius: 4px; outline: 1px solid var(--rule); fill: var(--ink); }
.pair figcaption { margin-top: .55rem; font-size: .85rem; color: var(--soft); }
figure { margin: 0; }
.right b { color: var(--good); font-weight: 650; } .wrong b { color: var(--bad); font-weight: 650; }
.histograms { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: 1rem; }
.before { fill: var(--muted); }
.after { fill: var(--c0); fill-opacity: .22; stroke: var(--c0); stroke-width: 1.2; stroke-linejoin: round; }
footer { margin-top: 3.5rem; padding-top: 1.2rem; border-top: 1px solid var(--rule); font-size: .875rem; color: var(--soft); }
code { display: inline-block; margin-top: .35rem; font: .82rem/1.6 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; color: var(--ink); overflow-wrap: anywhere; }
@media (max-width: 34rem) {
  main { padding: 2rem 1rem; }
  section { margin-top: 2.5rem; }
  .figures { grid-template-columns: 1fr 1fr; }
  .figures .number { font-size: 1.6rem; }
  .pairs { grid-template-columns: 1fr 1fr; gap: .75rem; }
  .charts svg text { font-size: 14px; }
  table, thead, tbody { display: block; }
  tr { display: grid; grid-template-columns: 1fr 1fr 1fr; column-gap: .75rem; padding: .55rem 0; }
  th, td { padding: 0; }
  th:nth-child(2), td:nth-child(2) { text-align: left; }
  th:first-child { display: none; }
  td:first-child { grid-column: 1 / -1; padding-bottom: .1rem; }
  td { font-size: .94rem; }
  .pair .images { grid-template-columns: 1fr 1rem 1fr; }
  .card { padding: .85rem; } .scroll { padding: .2rem .85rem; } .pair { padding: .6rem; }
}
@media print { body { background: none; } .card, tr { break-inside: avoid; } }
)css";

}  // namespace planck::cli
