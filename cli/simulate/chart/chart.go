// Package chart draws line charts: as text for a terminal and as SVG. Equal
// charts give equal bytes. It knows nothing of what the lines mean.
package chart

import (
	"math"
	"slices"
	"strconv"
)

// Point is one point of a line.
type Point struct{ X, Y float64 }

// Series is one line and its name. Points are in ascending order of X.
type Series struct {
	Name   string
	Points []Point
}

// Chart is lines over common axes. Up to eight lines are distinguished by color
// or mark; more begin again.
type Chart struct {
	Title  string
	X, Y   string   // what the axes show
	Series []Series // the first is drawn on top
	// From is the least X to show: what is left of it is cut off.
	From float64
}

// frame is the part of the plane that is shown.
type frame struct{ x0, x1, y0, y1 float64 }

// cut returns the lines from c.From on. One that begins before it gets a point
// there by interpolation.
func (c *Chart) cut() []Series {
	out := make([]Series, len(c.Series))
	for i, s := range c.Series {
		out[i].Name = s.Name
		first := slices.IndexFunc(s.Points, func(p Point) bool { return p.X >= c.From })
		switch {
		case first < 0:
			continue
		case first > 0 && s.Points[first].X > c.From:
			out[i].Points = append(out[i].Points, Point{c.From, between(s.Points[first-1], s.Points[first], c.From)})
		}
		out[i].Points = append(out[i].Points, s.Points[first:]...)
	}
	return out
}

// between interpolates from a to b at x.
func between(a, b Point, x float64) float64 {
	if b.X == a.X {
		return b.Y
	}
	return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
}

// bounds is the frame that holds all points, its Y side widened to whole steps
// of the axis. ok is false where there is no point at all.
func bounds(series []Series) (f frame, ok bool) {
	f = frame{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for _, s := range series {
		for _, p := range s.Points {
			f.x0, f.x1 = min(f.x0, p.X), max(f.x1, p.X)
			f.y0, f.y1 = min(f.y0, p.Y), max(f.y1, p.Y)
		}
	}
	if f.x0 > f.x1 {
		return frame{}, false
	}
	if f.x0 == f.x1 {
		f.x0, f.x1 = f.x0-1, f.x1+1
	}
	if f.y0 == f.y1 {
		f.y0, f.y1 = f.y0-1, f.y1+1
	}
	step := stride(f.y1-f.y0, 6)
	f.y0, f.y1 = math.Floor(f.y0/step)*step, math.Ceil(f.y1/step)*step
	return f, true
}

// stride is a step of 1, 2 or 5 times a power of ten that divides span into at
// most most parts.
func stride(span float64, most int) float64 {
	for step := math.Pow(10, math.Floor(math.Log10(span))-2); ; step *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if span/(k*step) <= float64(most)+1e-9 {
				return k * step
			}
		}
	}
}

// ticks are the whole steps from lo to hi, at most about most of them.
func ticks(lo, hi float64, most int) []float64 {
	step := stride(hi-lo, most)
	var out []float64
	first := math.Ceil(lo/step - 1e-9)
	for i := range most + 1 { // counted, as adding a step to a huge number may change nothing
		if v := (first + float64(i)) * step; v <= hi+step*1e-9 {
			out = append(out, v)
		}
	}
	return out
}

// number writes a tick without needless digits.
func number(v float64) string {
	if v = math.Round(v*1e6) / 1e6; v == 0 {
		return "0" // and never "-0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// last is the value at the end of a line.
func last(s Series) (Point, bool) {
	if len(s.Points) == 0 {
		return Point{}, false
	}
	return s.Points[len(s.Points)-1], true
}
