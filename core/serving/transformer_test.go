package serving_test

import (
	"testing"

	"berth.dev/berth/core/serving"
)

func TestReplicasOfATransformer(t *testing.T) {
	for _, tt := range []struct {
		name            string
		min, max, model int
		want            int
	}{
		{"one beside any number", 1, 1, 7, 1},
		{"none beside none", 2, 4, 0, 0},
		{"as many as of the model", 1, 4, 3, 3},
		{"no more than the maximum", 1, 4, 9, 4},
		{"no fewer than the minimum", 2, 4, 1, 2},
		{"one, if none is the minimum", 0, 1, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (&serving.Transformer{Min: tt.min, Max: tt.max}).Replicas(tt.model); got != tt.want {
				t.Errorf("%d replicas, want %d", got, tt.want)
			}
		})
	}
}

func TestTheStateOfATransformer(t *testing.T) {
	service := &serving.Service{Name: "a"}
	for _, tt := range []struct {
		name            string
		transformer     serving.Seen
		is              serving.Truth
		reason, message string
		queued          serving.Truth
	}{
		{"one that answers", serving.Seen{Wanted: 1, Ready: 1, Updated: 1}, serving.True, serving.ReasonReady, "1 of 1 replica ready", serving.False},
		{"one that waits for a node", serving.Seen{Wanted: 1, Waits: "no room"}, serving.False, serving.ReasonQueued, "0 of 1 replica ready: no room", serving.True},
		{"none beside none", serving.Seen{Why: "the model has no replicas"}, serving.True, serving.ReasonScaledDown, "the model has no replicas; the next request starts a replica", serving.False},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.transformer.Service = service
			s := serving.StateOf(&serving.Seen{Service: service, Wanted: 1, Ready: 1, Updated: 1, Transformer: &tt.transformer})
			if c := s.Transformer; c.Type != "TransformerReady" || c.Is != tt.is || c.Reason != tt.reason || c.Message != tt.message || s.Queued.Is != tt.queued {
				t.Errorf("the transformer is %+v, queued %+v", c, s.Queued)
			}
			if s.Predictor.Is != serving.True {
				t.Errorf("the predictor is %+v", s.Predictor)
			}
		})
	}
}
