package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseGoBench(t *testing.T) {
	got := parseGoBench(`goos: linux
pkg: berth.dev/berth/metrics/store
BenchmarkDay/an_instant_of_all_series-2         	       1	   6343183 ns/op	         4.845 cpu-ms/op
BenchmarkHop-16  	   100	      -1.5 cpu-us/req	         0.719 times-bare
BenchmarkQueues
BenchmarkFind/8-GPU 	       3	 154940372 ns/op
--- BENCH: BenchmarkDay
    bench_test.go:100: Benchmark of 12000 series
PASS
`)
	want := map[string]map[string]float64{
		"Day/an_instant_of_all_series": {"ns/op": 6343183, "cpu-ms/op": 4.845},
		"Hop":                          {"cpu-us/req": -1.5, "times-bare": 0.719},
		"Find/8-GPU":                   {"ns/op": 154940372},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
