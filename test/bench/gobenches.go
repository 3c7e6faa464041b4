package main

import "context"

// Scales from what Go prints.
const (
	toMicros  = 1e-3 // of ns
	toMillis  = 1e-6
	toSeconds = 1e-9
)

// benchLedger measures the ledger.
func benchLedger(ctx context.Context, r *report, _ string) error {
	const meter, ledger = "./controller/meter", "./ledger"
	return benchGo(ctx, r, []goBench{
		{meter, "PodLife", "3s", 5, []goFigure{
			{"PodLife", "ns/op", figure{what: "the life of a pod", unit: "ms", aim: 0.1, how: "a pod is bound, runs, and ends: all of the meter's own code and the writes of SQLite, in transactions of a hundred changes"}, toMillis},
		}},
		{meter, "FileGrowth", "20000x", 3, []goFigure{
			{"FileGrowth", "B/pod", figure{what: "the file, of a pod", unit: "kB", how: "by how much the file grows: interval, audit trail, an hour of use"}, 1e-3},
			{"FileGrowth", "B/pod", figure{what: "the file, of 10,000 pods a day for a year", unit: "GB", aim: 2}, 10000 * 365 / 1e9},
		}},
		{meter, "Month", "5x", 1, []goFigure{
			{"Month/by_user_1000_pods_a_day", "ns/op", figure{what: "a month by user, from intervals alone", unit: "s", how: "30,000 pods on 100 nodes; no day is closed"}, toSeconds},
			{"Month/by_workload_10000_pods_a_day", "ns/op", figure{what: "a month by workload", unit: "s", aim: 1, how: "300,000 pods on 100 nodes, in closed days"}, toSeconds},
		}},
		{ledger, "YearByUser", "", 5, []goFigure{
			{"YearByUser", "ns/op", figure{what: "a year by user", unit: "s", aim: 0.5, how: "365 closed days with 100 users"}, toSeconds},
		}},
		{ledger, "TotalsOfAYear", "", 5, []goFigure{
			{"TotalsOfAYear", "ns/op", figure{what: "all counters after a year", unit: "s", how: "as they are read every 30 seconds, with a year that is closed"}, toSeconds},
		}},
		{ledger, "CloseDay", "", 5, []goFigure{
			{"CloseDay", "ns/op", figure{what: "a day is closed", unit: "s", how: "10,000 pods on 100 nodes: its sums, and its link of the chain"}, toSeconds},
		}},
	})
}

// benchMetrics measures the store of metrics and the alert rules.
func benchMetrics(ctx context.Context, r *report, _ string) error {
	const store = "./metrics/store"
	return benchGo(ctx, r, []goBench{
		{store, "Day", "", 3, []goFigure{
			{"Day/stored", "chunk-MB", figure{what: "a day of 1,000 GPUs, chunks and index", unit: "MB", aim: 110, how: "12 series of each GPU, every 15 seconds for 24 hours"}, 1},
			{"Day/stored", "resident-MB", figure{what: "the same, growth of the process", unit: "MB", aim: 140}, 1},
			{"Day/an_instant_of_all_series", "cpu-ms/op", figure{what: "a query of an instant over all 12,000 series, CPU", unit: "ms", aim: 40}, 1},
			{"Day/a_day_of_one_metric", "cpu-ms/op", figure{what: "a query of a day of one metric, CPU", unit: "ms", aim: 300, how: "1,000 series, every minute of a day"}, 1},
			{"Day/a_day_of_a_rate", "cpu-ms/op", figure{what: "the same with rate, CPU", unit: "ms", aim: 700}, 1},
		}},
		{store, "SmallDay", "1x", 3, []goFigure{
			{"SmallDay", "chunk-MB", figure{what: "a day of as many series as `berth up` has, chunks and index", unit: "MB", how: "2,088 series, as if all GPUs were busy all day"}, 1},
			{"SmallDay", "resident-MB", figure{what: "the same, growth of the process", unit: "MB", aim: 15}, 1},
		}},
		{"./metrics/rules", "Round", "20x", 5, []goFigure{
			{"Round", "cpu-ms/op", figure{what: "a round of all alert rules, CPU", unit: "ms", aim: 100, how: "1,000 GPUs, all held, with 12 readings each"}, 1},
		}},
		{"./metrics/remote", "RoundBeside", "40x", 3, []goFigure{
			{"RoundBeside", "cpu-ms/op", figure{what: "the same where a Prometheus has the readings, CPU", unit: "ms", aim: 100, how: "asked by HTTP in another process, which compresses its answers; of the process that asks"}, 1},
			{"RoundBeside", "most-cpu-ms", figure{what: "the same, the round that took most", unit: "ms", how: "in which more of one metric is read again; of 40 rounds"}, 1},
		}},
		{"./metrics/remote", "AMoment", "", 3, []goFigure{
			{"AMoment", "ns/op", figure{what: "reading 1,000 series of a Prometheus, one moment", unit: "ms", how: "by its query API"}, toMillis},
		}},
		{"./metrics/remote", "AnHour", "", 3, []goFigure{
			{"AnHour", "ns/op", figure{what: "reading 1,000 series of a Prometheus, one hour", unit: "ms", how: "240 samples of each"}, toMillis},
		}},
	})
}

// benchServing measures the path of requests.
func benchServing(ctx context.Context, r *report, _ string) error {
	const proxy = "./activator/proxy"
	return benchGo(ctx, r, []goBench{
		{proxy, "Hop", "100000x", 5, []goFigure{
			{"Hop", "cpu-us/req", figure{what: "the activator's hop, CPU of a request", unit: "µs", aim: 100, how: "1 KB there and back, 16 in flight, HTTP/1.1 with connections kept; less the same requests without a proxy"}, 1},
			{"Hop", "bare-cpu-us/req", figure{what: "a bare httputil.ReverseProxy, the same", unit: "µs"}, 1},
			{"Hop", "times-bare", figure{what: "the activator against it", unit: "times", aim: 1}, 1},
		}},
		{proxy, "Added", "2000x", 5, []goFigure{
			{"Added", "p99-added-ms", figure{what: "what the activator adds to the time of a request, 99th percentile", unit: "ms", aim: 1, wall: true, how: "one request every 2 ms"}, 1},
		}},
		{proxy, "Held", "1x", 3, []goFigure{
			{"Held", "MB", figure{what: "10,000 held requests", unit: "MB", aim: 150, how: "of 1 KB each, on connections of another process; resident memory"}, 1},
		}},
	})
}

// benchDecisions measures decisions that the scheduler makes in memory.
func benchDecisions(ctx context.Context, r *report, _ string) error {
	const quota, server = "./core/quota", "./scheduler/server"
	return benchGo(ctx, r, []goBench{
		{quota, "Admit", "", 5, []goFigure{
			{"Admit", "ns/op", figure{what: "an admission", unit: "µs", aim: 50, how: "1,000 queues in which 10,000 gangs of 8 wait: a gang ends, the next is called and starts"}, toMicros},
		}},
		{quota, "AdmitPools", "", 5, []goFigure{
			{"AdmitPools", "ns/op", figure{what: "the same where each gang may use two pools", unit: "µs"}, toMicros},
		}},
		{quota, "AdmitBackfill", "", 5, []goFigure{
			{"AdmitBackfill", "ns/op", figure{what: "the same with backfill", unit: "µs", aim: 100, how: "four reservations, and 64 known runs of each queue"}, toMicros},
		}},
		{quota, "Victims", "", 5, []goFigure{
			{"Victims", "ns/op", figure{what: "a search for pods to evict", unit: "ms", how: "8 GPUs are reclaimed of 4,000 pods that borrow"}, toMillis},
		}},
		{server, "Rest$/0_gangs_of_2_wait", "1x", 1, []goFigure{
			{"Rest/0_gangs_of_2_wait", "%core", figure{what: "CPU at rest, none wait", unit: "% of a core", how: "a scheduler on 500 nodes, with an API server in memory"}, 1},
		}},
		{server, "Rest$/2500_gangs_of_2_wait", "1x", 1, []goFigure{
			{"Rest/2500_gangs_of_2_wait", "%core", figure{what: "CPU at rest, 2,500 gangs of 2 wait for quota", unit: "% of a core", aim: 1}, 1},
		}},
		{server, "Beside", "1x", 3, []goFigure{
			{"Beside", "cpu-us/pod", figure{what: "a pod gets a node beside 2,500 that wait for room, CPU", unit: "µs", how: "without queues; with an API server in memory, which is part of it"}, 1},
			{"Beside", "times", figure{what: "the same against beside none", unit: "times", aim: 1.1}, 1},
		}},
		{server, "Restart", "1x", 3, []goFigure{
			{"Restart", "s/op", figure{what: "a restart beside 5,000 pods that wait for quota", unit: "s", aim: 5, wall: true, how: "until each was tried, and the first of them has the GPU that had come free"}, 1},
			{"Restart", "cpu-s/op", figure{what: "the same, CPU", unit: "s"}, 1},
		}},
		{"./kube/explain", "Starts", "1x", 3, []goFigure{
			{"Starts", "ns/op", figure{what: "estimates of when all start that wait", unit: "s", how: "10,000 gangs in 1,000 queues, on 1,000 nodes; made so seldom that they take 2 % of a core"}, toSeconds},
		}},
		{"./scheduler/admission", "Policies", "", 5, []goFigure{
			{"Policies", "ns/op", figure{what: "the warnings of admission policies, a pod", unit: "ms", aim: 0.5, how: "their CEL, as the API server evaluates it"}, toMillis},
		}},
		{"./controlplane", "Guard", "", 5, []goFigure{
			{"Guard", "ns/op", figure{what: "the same in `berth up`, three writes of a pod", unit: "ms", aim: 0.05, how: "in the API server's process"}, toMillis},
		}},
	})
}
