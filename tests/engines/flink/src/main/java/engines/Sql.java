package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.time.LocalDateTime;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** A query over the table events(arrival, key, amount, ts), its result as a changelog. */
final class Sql {
    private Sql() {}

    static void build(StreamExecutionEnvironment environment, DataStream<Row> source, JsonNode settings) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.getConfig().set("table.local-time-zone", settings.path("timezone").asText("UTC"));
        settings.path("options").fields().forEachRemaining(
            option -> tables.getConfig().set(option.getKey(), option.getValue().asText()));
        long seconds = Fixtures.duration(settings, "watermark_delay").toSeconds();
        tables.createTemporaryView("events", tables.fromDataStream(
            source,
            Schema.newBuilder()
                .column("arrival", "INT").column("key", "STRING").column("time", "BIGINT").column("amount", "BIGINT")
                .columnByExpression("ts", "TO_TIMESTAMP_LTZ(`time`, 3)")
                .watermark("ts", "ts - INTERVAL '" + seconds + "' SECOND")
                .build()));
        tables.toChangelogStream(tables.sqlQuery(settings.get("query").asText()))
            .map(Sql::changed, Types.INT).sinkTo(new DiscardingSink<>());
    }

    private static int changed(Row change) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("op", change.getKind().shortString());
        for (String name : change.getFieldNames(true)) {
            Object value = change.getField(name);
            // TIMESTAMP is a local time, TIMESTAMP_LTZ an instant.
            row.put(name, value instanceof LocalDateTime ? value.toString()
                : value instanceof Instant instant ? instant.toEpochMilli() : value);
        }
        Recorder.OUTPUT.add(row);
        return Recorder.OUTPUT.size();
    }
}
