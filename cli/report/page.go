package report

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/visible"
)

// writer gathers text.
type writer struct{ strings.Builder }

func (w *writer) addf(format string, args ...any) { w.Write(fmt.Appendf(nil, format, args...)) }

// page is what is written.
type page struct {
	title    string
	notes    []string
	figures  []figure
	sections []section
}

// figure is a number at the top of the page.
type figure struct{ name, value, more string }

// section is a table with a bar for each row.
type section struct {
	title, note string
	head        []string
	rows        [][]string
	bars        []float64
	plain       bool // without bars
	all         bool // all rows are shown
}

func (s *section) add(bar float64, cells ...string) {
	for i := range cells {
		cells[i] = visible.Line(cells[i])
	}
	s.rows, s.bars = append(s.rows, cells), append(s.bars, bar)
}

// shown is how many rows a section shows, and what it says of the others.
func (s *section) shown() (n int, rest string) {
	if s.all || len(s.rows) <= most {
		return len(s.rows), ""
	}
	return most, fmt.Sprintf("%d more are not shown.", len(s.rows)-most)
}

// markdown is the page as Markdown.
func (p *page) markdown() string {
	var b writer
	b.addf("# %s\n", p.title)
	for _, note := range p.notes {
		b.addf("\n%s\n", inert(visible.Line(note)))
	}
	if len(p.figures) > 0 {
		b.WriteString("\n")
	}
	for _, f := range p.figures {
		b.addf("- %s: **%s**", f.name, f.value)
		if f.more != "" {
			b.addf(" (%s)", f.more)
		}
		b.WriteString("\n")
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
				cells[k] = inert(cell)
			}
			b.addf("| %s |\n", strings.Join(cells, " | "))
		}
		if rest != "" {
			b.addf("\n%s\n", rest)
		}
	}
	return b.String()
}

// inert is a text that Markdown shows as it is.
func inert(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "\\`", "[", `\[`).Replace(text)
}
