package chart

import (
	"math"
	"strings"
)

// canvas is cells of text. With braille each has 2 by 4 dots, else one mark.
type canvas struct {
	frame
	style         Style
	width, height int // cells
	across, down  int // dots in a cell
	dots          []uint8
	owner         []int // line drawn last in a cell; -1 is none
}

func newCanvas(f frame, width, height int, style Style) *canvas {
	g := &canvas{frame: f, style: style, width: width, height: height, across: 1, down: 1}
	if style.Unicode {
		g.across, g.down = 2, 4
	}
	g.dots = make([]uint8, width*height)
	g.owner = make([]int, width*height)
	for i := range g.owner {
		g.owner[i] = -1
	}
	return g
}

// line draws the line of series i through points: a dot for each column, and
// upright strokes where it is steep.
func (g *canvas) line(i int, points []Point) {
	columns, before := g.width*g.across, -1
	next := 0
	for column := range columns {
		x := g.x0 + (g.x1-g.x0)*float64(column)/float64(columns-1)
		for next < len(points) && points[next].X < x {
			next++
		}
		if next == len(points) && (next == 0 || points[next-1].X < x-1e-9) || next == 0 && points[0].X > x+1e-9 {
			before = -1
			continue
		}
		y := points[min(next, len(points)-1)].Y
		if next > 0 && next < len(points) {
			y = between(points[next-1], points[next], x)
		}
		down := g.height * g.down
		row := min(down-1, max(0, int(math.Round((g.y1-y)/(g.y1-g.y0)*float64(down-1)))))
		from, to := row, row
		if before >= 0 && before < row {
			from = before + 1
		} else if before > row {
			to = before - 1
		}
		for r := min(from, row); r <= max(to, row); r++ {
			g.dot(i, column, r)
		}
		before = row
	}
}

// brailleBits are the bits of the dots of a braille pattern, by column and row
// (Unicode, block U+2800).
var brailleBits = [2][4]uint8{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

func (g *canvas) dot(i, column, row int) {
	cell := row/g.down*g.width + column/g.across
	g.dots[cell] |= brailleBits[column%g.across][row%g.down]
	g.owner[cell] = i
}

// text is one row of cells. Neighbors of one color are painted together.
func (g *canvas) text(row int) string {
	var b strings.Builder
	owners := g.owner[row*g.width : (row+1)*g.width]
	for from := 0; from < g.width; {
		i, to := owners[from], from+1
		for to < g.width && owners[to] == i {
			to++
		}
		switch {
		case i < 0:
			b.WriteString(strings.Repeat(" ", to-from))
		case g.style.Unicode:
			cells := make([]rune, 0, to-from)
			for _, bits := range g.dots[row*g.width+from : row*g.width+to] {
				cells = append(cells, 0x2800+rune(bits))
			}
			b.WriteString(g.style.paint(i, string(cells)))
		default:
			b.WriteString(strings.Repeat(string(marks[i%len(marks)]), to-from))
		}
		from = to
	}
	return b.String()
}
