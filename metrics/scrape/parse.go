package scrape

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"berth.dev/berth/metrics/store"
)

func cutKey(key string) (job, instance string, ok bool) { return strings.Cut(key, "\x00") }

// parse reads an answer. With an error none of it counts.
func (s *Scraper) parse(k *known, t *Target, text []byte) ([]store.Sample, error) {
	p := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	batch := make([]store.Sample, 0, len(k.series)+16)
	lines, most := 0, cmp.Or(t.Samples, s.limits.Samples)
	for {
		entry, err := p.Next()
		switch {
		case errors.Is(err, io.EOF):
			return batch, nil
		case err != nil:
			return nil, fmt.Errorf("read its metrics: %w", err)
		}
		switch entry {
		case textparse.EntryHelp:
			name, help := p.Help()
			s.describe(string(name), func(m *Metadata) { m.Help = string(help) })
		case textparse.EntryType:
			name, kind := p.Type()
			s.describe(string(name), func(m *Metadata) { m.Type = string(kind) })
		case textparse.EntrySeries:
			if lines++; lines > most {
				return nil, fmt.Errorf("more than %d samples", most)
			}
			raw, _, v := p.Series() // its own time is not taken: clocks of nodes differ
			o, err := s.series(k, t, raw, p)
			if err != nil {
				return nil, err
			}
			if o == nil || o.round == k.round { // left out, or a second time
				continue
			}
			o.round = k.round
			batch = append(batch, store.Sample{Series: o.series, Value: rounded(o.name, v)})
		default: // comments, units, and native histograms, which the text format has not
		}
	}
}

// series finds the series of a line, nil if it is left out.
func (s *Scraper) series(k *known, t *Target, raw []byte, p textparse.Parser) (*one, error) {
	if o := k.series[string(raw)]; o != nil {
		return o, nil
	}
	var own labels.Labels
	p.Labels(&own)
	name := own.Get(model.MetricNameLabel)
	switch {
	case slices.Contains(t.Drop, name):
		return nil, nil
	case own.Len() > s.limits.Labels:
		return nil, fmt.Errorf("a series of %s has %d labels; at most %d are taken", name, own.Len(), s.limits.Labels)
	case len(raw) > s.limits.Text:
		return nil, fmt.Errorf("the labels of a series of %s are %d bytes long; at most %d are taken", name, len(raw), s.limits.Text)
	}
	b := labels.NewBuilder(own)
	for name, v := range map[string]string{"job": t.Job, "instance": t.Instance} {
		if was := own.Get(name); was != "" {
			b.Set("exported_"+name, was)
		}
		b.Set(name, v)
	}
	r, ok := s.store.SeriesLeaving(b.Labels(), t.Leaves)
	if !ok {
		return nil, nil
	}
	o := &one{series: r, name: name}
	k.series[string(raw)] = o
	return o, nil
}

func (s *Scraper) describe(name string, set func(*Metadata)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, has := s.names[name]
	if !has && len(s.names) >= s.limits.Names {
		return
	}
	if set(&m); len(m.Help) > 500 {
		m.Help = strings.ToValidUTF8(m.Help[:500], "")
	}
	s.names[name] = m
}

// rounded is a reading without the digits that its sensor does not have, which take most of the room: power to a quarter of a watt, ratios to 1/1024, energy to
// 1,024 mJ.
func rounded(name string, v float64) float64 {
	unit := 0.0
	switch {
	case name == "DCGM_FI_DEV_POWER_USAGE":
		unit = 0.25
	case name == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION":
		unit = 1024
	case strings.HasPrefix(name, "DCGM_FI_PROF_") && v >= 0 && v <= 1:
		unit = 1.0 / 1024
	default:
		return v
	}
	return math.Round(v/unit) * unit
}
