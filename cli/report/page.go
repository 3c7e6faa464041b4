package report

import (
	"fmt"
	"html"
	"strings"

	"berth.dev/berth/internal/visible"
)

// writer gathers text.
type writer struct{ strings.Builder }

func (w *writer) addf(format string, args ...any) { w.WriteString(fmt.Sprintf(format, args...)) }

// page is what is written.
type page struct {
	title, note string
	sections    []section
}

// section is a table with a bar for each row.
type section struct {
	title, note string
	head        []string
	rows        [][]string
	bars        []float64
}

func (s *section) add(bar float64, cells ...string) {
	for i := range cells {
		cells[i] = visible.Line(cells[i])
	}
	s.rows, s.bars = append(s.rows, cells), append(s.bars, bar)
}

// shown is how many rows a section shows, and what it says of the others.
func (s *section) shown() (n int, rest string) {
	if len(s.rows) <= most {
		return len(s.rows), ""
	}
	return most, fmt.Sprintf("%d more are not shown.", len(s.rows)-most)
}

// markdown is the page as Markdown.
func (p *page) markdown() string {
	var b writer
	b.addf("# %s\n", p.title)
	if p.note != "" {
		b.addf("\n%s\n", p.note)
	}
	for i := range p.sections {
		s := &p.sections[i]
		b.addf("\n## %s\n\n%s\n\n", s.title, s.note)
		n, rest := s.shown()
		if n == 0 {
			b.WriteString("Nothing.\n")
			continue
		}
		b.addf("| %s |\n|%s\n", strings.Join(s.head, " | "), strings.Repeat("---|", len(s.head)))
		for _, row := range s.rows[:n] {
			cells := make([]string, len(row))
			for k, cell := range row {
				cells[k] = strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "\\`", "[", `\[`).Replace(cell)
			}
			b.addf("| %s |\n", strings.Join(cells, " | "))
		}
		if rest != "" {
			b.addf("\n%s\n", rest)
		}
	}
	return b.String()
}

// style is how the page looks, in light and in dark.
const style = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884;vertical-align:middle;overflow-wrap:break-word}
h1{font-size:1.6rem}
th:last-child{width:160px}
td.number,th.number{text-align:right;white-space:nowrap}
svg{display:block}
p{color:#767676}`

// html is the page as one file without others.
func (p *page) html() string {
	var b writer
	title := html.EscapeString(p.title)
	b.addf("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n<style>\n%s\n</style>\n</head>\n<body>\n<h1>%s</h1>\n", title, style, title)
	if p.note != "" {
		b.addf("<p>%s</p>\n", html.EscapeString(p.note))
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
	b.WriteString("<table>\n<tr>")
	for k, head := range s.head {
		b.addf("<th%s>%s</th>", s.class(k), html.EscapeString(head))
	}
	b.WriteString("<th></th></tr>\n")
	longest := 0.0
	for _, bar := range s.bars {
		longest = max(longest, bar)
	}
	for i, row := range s.rows[:n] {
		b.WriteString("<tr>")
		for k, cell := range row {
			b.addf("<td%s>%s</td>", s.class(k), html.EscapeString(cell))
		}
		width := 0.0
		if longest > 0 {
			width = 160 * s.bars[i] / longest
		}
		b.addf("<td><svg width=\"160\" height=\"12\" role=\"img\" aria-hidden=\"true\"><rect width=\"%.1f\" height=\"12\" rx=\"2\" fill=\"#4a7fb5\"/></svg></td></tr>\n", width)
	}
	b.WriteString("</table>\n")
	if rest != "" {
		b.addf("<p>%s</p>\n", rest)
	}
}

// class aligns cells of numbers: all but the first, and texts.
func (s *section) class(k int) string {
	if k == 0 || s.head[k] == "advice" {
		return ""
	}
	return ` class="number"`
}
