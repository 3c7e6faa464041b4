package report

import (
	"html"
	"slices"

	"berth.dev/berth/internal/visible"
)

// style is how the page looks, in light and in dark, on screens of any width, and on paper.
const style = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}
h2{font-size:1.2rem;margin:2.2rem 0 .2rem}
p,small{color:#767676}
p{margin:.2rem 0 .8rem}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:.8rem;margin:1.2rem 0}
dl div{border:1px solid #8884;border-radius:.5rem;padding:.7rem .9rem}
dt{color:#767676;font-size:.85rem}
dd{margin:0;font-size:1.35rem;font-weight:600}
small{display:block;font-size:.8rem;font-weight:400;line-height:1.35}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}
th{font-weight:600;white-space:nowrap}
td.number,th.number{text-align:right;white-space:nowrap}
td.text{min-width:11rem}
td.name{white-space:nowrap}
td.bar,th.bar{width:110px;padding-right:0;vertical-align:middle}
svg{display:block}
@media print{body{max-width:none;margin:0;font-size:11px}.wide{overflow:visible}}`

// longest is how wide the longest bar is.
const longest = 110

// html is the page as one file without others.
func (p *page) html() string {
	var b writer
	title := html.EscapeString(p.title)
	b.addf("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n<style>\n%s\n</style>\n</head>\n<body>\n<h1>%s</h1>\n", title, style, title)
	for _, note := range p.notes {
		b.addf("<p>%s</p>\n", html.EscapeString(visible.Line(note)))
	}
	if len(p.figures) > 0 {
		b.WriteString("<dl>\n")
		for _, f := range p.figures {
			b.addf("<div><dt>%s</dt><dd>%s", html.EscapeString(f.name), html.EscapeString(f.value))
			if f.more != "" {
				b.addf("<small>%s</small>", html.EscapeString(f.more))
			}
			b.WriteString("</dd></div>\n")
		}
		b.WriteString("</dl>\n")
	}
	for i := range p.sections {
		p.sections[i].html(&b)
	}
	b.WriteString("</body>\n</html>\n")
	return b.String()
}

func (s *section) html(b *writer) {
	b.addf("<h2>%s</h2>\n<p>%s</p>\n", html.EscapeString(s.title), html.EscapeString(s.note))
	n, rest := s.shown()
	if n == 0 {
		b.WriteString("<p>Nothing.</p>\n")
		return
	}
	b.WriteString("<div class=\"wide\">\n<table>\n<tr>")
	for k, head := range s.head {
		b.addf("<th%s>%s</th>", s.class(k), html.EscapeString(head))
	}
	if !s.plain {
		b.WriteString("<th class=\"bar\"></th>")
	}
	b.WriteString("</tr>\n")
	greatest := slices.Max(s.bars)
	for i, row := range s.rows[:n] {
		b.WriteString("<tr>")
		for k, cell := range row {
			b.addf("<td%s>%s</td>", s.class(k), html.EscapeString(cell))
		}
		if !s.plain {
			width := 0.0
			if greatest > 0 {
				width = longest * max(0, s.bars[i]) / greatest
			}
			b.addf("<td class=\"bar\"><svg width=\"%d\" height=\"12\" role=\"img\" aria-hidden=\"true\"><rect width=\"%.1f\" height=\"12\" rx=\"2\" fill=\"#4a7fb5\"/></svg></td>", longest, width)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n</div>\n")
	if rest != "" {
		b.addf("<p>%s</p>\n", html.EscapeString(rest))
	}
}

// texts are the columns that are not numbers.
var texts = []string{"advice", "user", "why", "node", "way", "isolation", "memory", "what", "how it is"}

// class aligns cells of numbers: all but the first, and texts. Long texts have room.
func (s *section) class(k int) string {
	switch head := s.head[k]; {
	case head == "advice" || head == "isolation" || head == "memory" || head == "why" || head == "how it is":
		return ` class="text"`
	case k > 0 && (head == "node" || head == "user" || head == "way"):
		return ` class="name"`
	case k == 0 || slices.Contains(texts, head):
		return ""
	}
	return ` class="number"`
}
