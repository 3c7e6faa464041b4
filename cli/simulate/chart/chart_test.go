package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"berth.dev/berth/cli/simulate/chart"
	"berth.dev/berth/internal/visible"
	"berth.dev/berth/test/golden"
)

// full is a chart of two lines that part at 95.
func full() *chart.Chart {
	c := &chart.Chart{Title: `Two <lines> & "more"`, X: "asked for, %", Y: "allocated, %", From: 90}
	for _, line := range []struct {
		name string
		most float64
	}{{"berth", 96.24}, {"fgd", 95.39}} {
		s := chart.Series{Name: line.name}
		for x := 0.0; x <= 130; x++ {
			s.Points = append(s.Points, chart.Point{X: x, Y: min(x, line.most)})
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// shown is text as a terminal gets it.
func shown(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	if _, err := visible.NewWriter(&b).Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestChartsAreDrawn(t *testing.T) {
	for _, tt := range []struct {
		name, file, got string
	}{
		{"as text with marks", "ascii.txt", full().Text(80, 12, chart.Style{})},
		{"as text with braille and colors", "braille.txt", shown(t, full().Text(80, 12, chart.Style{Unicode: true, Color: true}))},
		{"as SVG", "chart.svg", string(full().SVG())},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden.File(t, tt.file, tt.got)
		})
	}
}

func TestAChartWithoutPointsIsNoText(t *testing.T) {
	for _, c := range []*chart.Chart{{}, {Series: []chart.Series{{Name: "a"}}}, {From: 5, Series: []chart.Series{{Points: []chart.Point{{X: 1, Y: 1}}}}}} {
		if got := c.Text(80, 10, chart.Style{}); got != "" {
			t.Errorf("%+v is drawn as %q, want nothing", c, got)
		}
		wellFormed(t, c.SVG())
	}
}

// FuzzChart draws any two lines. Text keeps to its width and height, names every
// line that has a point, and SVG is XML.
func FuzzChart(f *testing.F) {
	f.Add("berth", 0.0, 1.0, 100.0, 96.0, 80, 12, 0.0)
	f.Add("", 5.0, 5.0, 5.0, 5.0, 1, 1, -3.0)
	f.Add("a\x00b\xff", -1e9, 1e9, 1e-9, 0.0, 200, 3, 0.5)
	f.Fuzz(func(t *testing.T, name string, x0, y0, x1, y1 float64, width, height int, from float64) {
		for _, v := range []float64{x0, y0, x1, y1, from} {
			if math.IsNaN(v) || math.Abs(v) > 1e12 {
				return
			}
		}
		name = strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, name)
		if width > 500 || height > 100 || len(name) > 20 || strings.ContainsRune(name, utf8.RuneError) {
			return
		}
		c := &chart.Chart{From: from, Series: []chart.Series{
			{Name: name, Points: []chart.Point{{X: min(x0, x1), Y: y0}, {X: max(x0, x1), Y: y1}}},
			{Name: "other", Points: []chart.Point{{X: x0, Y: y1}}},
		}}
		wellFormed(t, c.SVG())
		text := c.Text(width, height, chart.Style{})
		if max(x0, x1) < from {
			return
		}
		if !strings.Contains(text, "* "+name) {
			t.Errorf("the text does not name line %q:\n%s", name, text)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != max(height, 4)+2 {
			t.Errorf("%d lines, want %d of plot and 2 of axis:\n%s", len(lines), max(height, 4), text)
		}
	})
}

func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
	}
}

func TestTextKeepsToItsWidth(t *testing.T) {
	for width := 40; width < 140; width++ {
		for _, style := range []chart.Style{{}, {Unicode: true}} {
			for line := range strings.SplitSeq(full().Text(width, 10, style), "\n") {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("width %d, %+v: a line has %d columns: %s", width, style, n, line)
				}
			}
		}
	}
}
