package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"time"

	"berth.dev/berth/core/cost"
)

// workloads writes the charges of the workloads of a day, beside the sums of that day. A day has thousands of them, which are only read
// together: they are one value, compressed gob.
func (w *writer) workloads(day time.Time, rows []cost.Row) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		err = gob.NewEncoder(z).Encode(rows)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		w.err = err
		return
	}
	w.do("INSERT OR REPLACE INTO day_workloads VALUES (?, ?)", day.UnixMilli(), out.Bytes())
}

// workloads reads what the workloads of days are charged that are closed and in a time as a whole. Days are left out of which it does not add
// up to the sums of the day: facts are to be read of them.
func (r *reader) workloads(from, to time.Time) map[time.Time][]cost.Row {
	const query = `SELECT w.day, w.rows, SUM(s.part_millis), SUM(s.unpriced), SUM(s.micros) FROM day_workloads w JOIN days d ON d.day = w.day JOIN sums s ON s.day = w.day
		WHERE w.day >= ? AND w.day <= ? GROUP BY w.day`
	out := map[time.Time][]cost.Row{}
	r.rows(query, []any{from.UnixMilli(), to.Add(-cost.Day).UnixMilli()}, func(scan func(...any) error) error {
		var day, parts, unpriced, micros int64
		var raw []byte
		if err := scan(&day, &raw, &parts, &unpriced, &micros); err != nil {
			return err
		}
		rows, err := decodeWorkloads(raw)
		if err != nil {
			return nil //nolint:nilerr // facts are read
		}
		for i := range rows {
			parts, unpriced, micros = parts-rows[i].PartMillis, unpriced-rows[i].Unpriced, micros-rows[i].Micros
		}
		if parts == 0 && unpriced == 0 && micros == 0 {
			out[time.UnixMilli(day).UTC()] = rows
		}
		return nil
	})
	return out
}

func decodeWorkloads(raw []byte) (rows []cost.Row, err error) {
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return rows, gob.NewDecoder(z).Decode(&rows)
}
