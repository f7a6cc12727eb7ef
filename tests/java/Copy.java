import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies `numbers` to `copies` with Flink's exactly-once sink, in a cluster of Flink's within this process.
 * Arguments: the servers, the way in which transactional ids are named, NAME=VALUE of Flink's configuration.
 * It has no classes of its own: those that the launcher of single files compiles, Flink's tasks do not find.
 */
public class Copy {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (int index = 2; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            configuration.setString(pair[0], pair[1]);
        }
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(arguments[0])
            .setTopics("numbers")
            .setGroupId("copy")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(arguments[0])
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("copy")
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[1]))
            .setProperty("transaction.timeout.ms", "180000")
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic("copies")
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers").sinkTo(sink);
        environment.execute("copy");
    }
}
