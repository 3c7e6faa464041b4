package top

import (
	"bytes"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/visible"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	return v
}

// text is the screen, of which no line is wider than it is.
func (m *model) text() string {
	if m.seen.at.IsZero() {
		return "reading the cluster"
	}
	rows := m.of(m.seen.rows)
	last := min(len(rows), m.first+m.lines())
	lines := []string{"berth top  " + m.seen.at.Format("15:04:05") + "  " + m.seen.summary(), ""}
	if len(rows) == 0 {
		none := "no row has all words of the filter"
		if m.filter == "" {
			none = "no pod holds a GPU"
		}
		lines = append(lines, none, "")
	} else {
		lines = append(lines, m.table(rows)[:1+last]...)
		lines = append(lines[:3], lines[3+m.first:]...)
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines, m.state(len(rows), last), keys)
	narrow := lipgloss.NewStyle().MaxWidth(max(20, m.width))
	for i := range lines {
		lines[i] = narrow.Render(lines[i])
	}
	return strings.Join(lines, "\n")
}

// table is the head and all rows, so columns stay as wide as they are while one scrolls.
func (m *model) table(rows []Row) []string {
	var b bytes.Buffer
	w := term.Guard(&b)
	_ = table(rows, m.seen.at, false, true).Write(w, term.Screen{Width: max(20, m.width), Cut: true, Color: m.color}, false) // memory takes all
	term.Flush(w)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// state says what is shown, and what is not as it should be.
func (m *model) state(rows, last int) string {
	parts := []string{fmt.Sprintf("rows %d-%d of %d", min(m.first+1, last), last, rows), "by " + orders[m.order].name}
	if m.down {
		parts[1] += ", largest first"
	}
	if m.held {
		parts = append(parts, "held only")
	}
	switch {
	case m.typing:
		parts = append(parts, "filter: "+visible.Line(m.filter)+"▏")
	case m.filter != "":
		parts = append(parts, "filter: "+visible.Line(m.filter)+" (esc removes it)")
	}
	if m.paused {
		parts = append(parts, "PAUSED")
	}
	if m.failed != nil {
		parts = append(parts, "as it was: "+visible.Line(m.failed.Error()))
	}
	return strings.Join(parts, " · ")
}
