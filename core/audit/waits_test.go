package audit

import (
	"fmt"
	"testing"
)

func TestWaitsOf(t *testing.T) {
	var rows []Row
	for k := range 10 {
		uid := fmt.Sprint("p", k)
		rows = append(rows, Row{At: at(0), Act: Asked, UID: uid, Queue: "red"}, Row{At: at(k + 1), Act: Granted, UID: uid, Queue: "red"})
	}
	rows = append(rows, Row{At: at(0), Act: Asked, UID: "w", Queue: "blue"}, Row{At: at(3), Act: Asked, UID: "d", Queue: "blue"}, Row{At: at(4), Act: Released, UID: "d"}, Row{At: at(5), Act: Granted, UID: "before"})
	want := "[{red 10 6m0s 10m0s 10m0s 0} {blue 0 0s 0s 0s 1}]"
	if got := fmt.Sprint(WaitsOf(rows)); got != want {
		t.Errorf("the waits are %s, want %s", got, want)
	}
}
