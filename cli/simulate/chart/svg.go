package chart

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The SVG's size and the plot within it, in pixels.
const (
	svgWidth, svgHeight            = 890, 460
	plotLeft, plotTop              = 64, 56
	plotWidth, plotHeight          = 620, 336
	legendLeft, legendStep, legend = plotLeft + plotWidth + 20, 22, 30
)

// inks are the colors of lines, on light and on dark ground, and their dashes.
// People who see no red or no green can distinguish them (Okabe and Ito 2008,
// adapted), and by the dashes in print.
var inks = []struct{ light, dark, dash string }{
	{"#0b5cad", "#58a6ff", ""},
	{"#c2570c", "#f0883e", "7 3"},
	{"#0f7b55", "#3fb68b", "2 3"},
	{"#9a3c8a", "#d987c9", "9 3 2 3"},
	{"#7a6200", "#d8b52a", "4 2"},
	{"#5b6470", "#a0a9b4", "1 3"},
	{"#a3182d", "#ff7b82", "12 4"},
	{"#3d4a9c", "#9aa7ff", "3 6"},
}

// SVG draws c as a stand-alone file of 890 by 460 pixels, readable on light
// and, where the viewer asks for it, on dark ground. A chart without points has
// its axes' names alone.
func (c *Chart) SVG() []byte {
	series := c.cut()
	f, ok := bounds(series)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		svgWidth, svgHeight, escape(c.Title))
	b.WriteString(css(len(series)))
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", svgWidth, svgHeight)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="30">%s</text>`+"\n", plotLeft, escape(c.Title))
	if ok {
		f.grid(&b)
		for i, s := range slices.Backward(series) {
			if len(s.Points) > 0 {
				fmt.Fprintf(&b, `<polyline class="line l%d" points="%s"/>`+"\n", i%len(inks), f.path(s.Points))
			}
		}
	}
	for i, s := range series {
		y := plotTop + 10 + i*legendStep
		fmt.Fprintf(&b, `<line class="line l%d" x1="%d" y1="%d" x2="%d" y2="%d"/>`, i%len(inks), legendLeft, y, legendLeft+legend, y)
		name := s.Name
		if p, ok := last(s); ok {
			name = fmt.Sprintf("%s %.2f", s.Name, p.Y)
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", legendLeft+legend+8, y+4, escape(name))
	}
	fmt.Fprintf(&b, `<text class="axis" text-anchor="middle" x="%d" y="%d">%s</text>`+"\n",
		plotLeft+plotWidth/2, plotTop+plotHeight+44, escape(c.X))
	middle := plotTop + plotHeight/2
	fmt.Fprintf(&b, `<text class="axis" text-anchor="middle" x="18" y="%d" transform="rotate(-90 18 %d)">%s</text>`+"\n",
		middle, middle, escape(c.Y))
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// css is the style sheet for n lines.
func css(n int) string {
	var light, dark strings.Builder
	for i := range min(n, len(inks)) {
		fmt.Fprintf(&light, ".l%d{stroke:%s", i, inks[i].light)
		if inks[i].dash != "" {
			fmt.Fprintf(&light, ";stroke-dasharray:%s", inks[i].dash)
		}
		light.WriteString("}")
		fmt.Fprintf(&dark, ".l%d{stroke:%s}", i, inks[i].dark)
	}
	return "<style>\n" +
		"text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.axis,.tick{fill:#59636e}\n" +
		".ground{fill:#fff}.rule{stroke:#d1d9e0;stroke-width:1}.line{fill:none;stroke-width:2.25;stroke-linejoin:round}\n" +
		light.String() + "\n" +
		"@media (prefers-color-scheme:dark){text{fill:#e6edf3}.axis,.tick{fill:#9198a1}.ground{fill:#0d1117}.rule{stroke:#3d444d}" +
		dark.String() + "}\n</style>\n"
}

// grid draws the rules and ticks of both axes.
func (f frame) grid(b *strings.Builder) {
	for _, t := range ticks(f.y0, f.y1, 6) {
		_, y := f.at(Point{f.x0, t})
		fmt.Fprintf(b, `<line class="rule" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, plotLeft, y, plotLeft+plotWidth, y)
		fmt.Fprintf(b, `<text class="tick" text-anchor="end" x="%d" y="%.1f">%s</text>`+"\n", plotLeft-8, y+4, number(t))
	}
	for _, t := range ticks(f.x0, f.x1, 8) {
		x, _ := f.at(Point{t, f.y0})
		fmt.Fprintf(b, `<line class="rule" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, plotTop, x, plotTop+plotHeight)
		fmt.Fprintf(b, `<text class="tick" text-anchor="middle" x="%.1f" y="%d">%s</text>`+"\n", x, plotTop+plotHeight+20, number(t))
	}
}

// at is where p is drawn.
func (f frame) at(p Point) (x, y float64) {
	return plotLeft + plotWidth*(p.X-f.x0)/(f.x1-f.x0), plotTop + plotHeight*(f.y1-p.Y)/(f.y1-f.y0)
}

func (f frame) path(points []Point) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		x, y := f.at(p)
		fmt.Fprintf(&b, "%.1f,%.1f", x, y)
	}
	return b.String()
}

// escape makes text fit to stand in XML, which has no control characters.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
