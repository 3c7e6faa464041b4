package meter

import (
	"context"
	"sync"
	"time"

	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/internal/pause"
)

const (
	readEvery    = 15 * time.Second
	readPace     = 125 * time.Millisecond // at least, from one exporter to the next: large clusters are read more seldom
	readAtOnce   = 4
	readPatience = 5 * time.Second // for one exporter
)

// watch reads what pods do with their GPUs until ctx ends. Exporters that do not answer are left out.
func (m *Meter) watch(ctx context.Context, from *proxy.Gauges) {
	for pause.For(ctx, readEvery) {
		m.mu.Lock()
		nodes := m.tally.holding()
		m.mu.Unlock()
		slots := make(chan struct{}, readAtOnce)
		var reads sync.WaitGroup
		for _, node := range nodes {
			slots <- struct{}{}
			reads.Go(func() {
				defer func() { <-slots }()
				at, readings, _, err := from.Read(ctx, node)
				if err != nil {
					return // it is read again; idle notebooks and berth doctor show why
				}
				m.mu.Lock()
				m.tally.read(node, at, readings)
				m.mu.Unlock()
			})
			if !pause.For(ctx, readPace) {
				break
			}
		}
		reads.Wait()
		m.mu.Lock()
		news := !m.tally.batch.Empty()
		m.mu.Unlock()
		if news {
			m.poke()
		}
	}
}
