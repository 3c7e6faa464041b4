package top

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"berth.dev/berth/kube/devices"
)

// snapshot is what was seen of a cluster at one moment.
type snapshot struct {
	at      time.Time
	rows    []Row
	total   devices.Count
	waiting int // pods that ask for GPUs and have no node
}

// failure is why the cluster could not be read.
type failure struct{ err error }

// model is the screen: what was seen last, and what the user has chosen. Update and View are all that changes and shows it.
type model struct {
	selection
	seen          snapshot
	failed        error // of the last look
	width, height int
	first         int  // row that is shown first
	typing        bool // a filter is being typed
	paused        bool
	color         bool
}

// around is how many lines are not rows: the summary, an empty one, the head of the table, and two at the foot.
const around = 5

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case snapshot:
		if !m.paused {
			m.seen, m.failed = msg, nil
		}
	case failure:
		m.failed = msg.err
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			return m, tea.Quit
		}
		if m.typing {
			m.typed(msg)
		} else if m.pressed(msg.String()) {
			return m, tea.Quit
		}
	}
	m.first = max(0, min(m.first, len(m.of(m.seen.rows))-m.lines()))
	return m, nil
}

// typed takes a key while a filter is typed.
func (m *model) typed(key tea.KeyPressMsg) {
	switch key.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		if text := key.Key().Text; len(m.filter) < 100 {
			m.filter += text
		}
	}
}

// pressed takes a key, and reports whether that ends the program.
func (m *model) pressed(key string) (ends bool) {
	switch key {
	case "q":
		return true
	case "s", "right":
		m.sort((m.order + 1) % len(orders))
	case "S", "left":
		m.sort((m.order + len(orders) - 1) % len(orders))
	case "r":
		m.down = !m.down
	case "h":
		m.held = !m.held
	case "/":
		m.typing = true
	case "esc":
		m.filter = ""
	case "space", "p":
		m.paused = !m.paused
	case "down", "j":
		m.first++
	case "up", "k":
		m.first--
	case "pgdown":
		m.first += m.lines()
	case "pgup":
		m.first -= m.lines()
	case "home", "g":
		m.first = 0
	case "end", "G":
		m.first = len(m.seen.rows)
	}
	return false
}

// sort orders by a column: numbers and times have the largest first.
func (m *model) sort(order int) {
	m.order = order
	switch orders[order].name {
	case "util", "memory", "power":
		m.down = true
	default:
		m.down = false
	}
}

// lines is how many rows fit on the screen.
func (m *model) lines() int { return max(1, m.height-around) }

// keys are those that the foot names.
const keys = "q quit   s sort   r reverse   / filter   h held only   p pause   ↑↓ scroll"
